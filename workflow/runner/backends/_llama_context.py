"""One llama.cpp context: feed ids, get rows of logits; every setting is set and read back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from runner.checks import CheckFailure

KV_TYPES = {"fp32": 0, "fp16": 1, "q8_0": 8, "q4_0": 2}
"""ggml's number of a KV cache type."""


class Context:
    """A loaded GGUF and one sequence in its KV cache."""

    def __init__(
        self,
        path: Path,
        *,
        kv_type: str,
        n_ctx: int,
        n_batch: int,
        n_ubatch: int,
        flash_attention: bool,
        threads: int,
    ) -> None:
        """Load; raises CheckFailure when llama.cpp refuses or lowers a setting."""
        import llama_cpp

        self.lib: Any = llama_cpp
        self._silence()
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise CheckFailure(f"{path}: llama.cpp does not load it: {self._last_words()}")
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = n_ctx
        settings.n_batch, settings.n_ubatch = n_batch, n_ubatch
        settings.n_seq_max = 1
        settings.n_threads = settings.n_threads_batch = threads
        settings.type_k = settings.type_v = KV_TYPES[kv_type]
        # 0 and 1, never -1 (automatic): what is measured must not depend on a guess.
        settings.flash_attn_type = int(flash_attention)
        settings.offload_kqv = settings.op_offload = False
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        if not self.context:
            raise CheckFailure(f"{path}: llama.cpp makes no context: {self._last_words()}")
        self.kv_type = kv_type
        self.n_batch = int(llama_cpp.llama_n_batch(self.context))
        self.n_ubatch = int(llama_cpp.llama_n_ubatch(self.context))
        if (self.n_batch, self.n_ubatch) != (n_batch, n_ubatch):
            raise CheckFailure(
                f"cell.json: options: n_batch, n_ubatch are {n_batch}, {n_ubatch}; "
                f"llama.cpp made them {self.n_batch}, {self.n_ubatch}"
            )
        self.n_vocab = int(
            llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        )
        self._memory = llama_cpp.llama_get_memory(self.context)
        self._make_batch()
        self._length = 0

    def clear(self) -> None:
        """Forget the sequence. The cache's old bytes stay, masked: they weigh exactly nothing."""
        self.lib.llama_memory_clear(self._memory, False)
        self._length = 0

    def feed(self, ids: list[int], wanted: int) -> Iterator[Any]:
        """Append ids; yield fp32 rows [n, vocab], the last `wanted` positions' logits in all.

        The rows are overwritten by the next step. Raises RuntimeError when llama.cpp fails.
        """
        first = len(ids) - wanted
        for start in range(0, len(ids), self.n_batch):
            part = ids[start : start + self.n_batch]
            count = len(part)
            self._batch.n_tokens = count
            self._token[:count] = part
            self._pos[:count] = range(self._length, self._length + count)
            self._logits[:count] = np.arange(start, start + count) >= first
            code = self.lib.llama_decode(self.context, self._batch)
            if code != 0:
                raise RuntimeError(f"llama_decode ended with {code}: {self._last_words()}")
            self._length += count
            rows = min(count, max(0, start + count - first))
            if rows:
                logits = self.lib.llama_get_logits(self.context)
                yield np.ctypeslib.as_array(logits, shape=(rows, self.n_vocab))

    def meta(self, key: str) -> str:
        """Return one value of the file's metadata as text, empty if it is absent."""
        buffer = ctypes.create_string_buffer(256)
        self.lib.llama_model_meta_val_str(self.model, key.encode(), buffer, len(buffer))
        return buffer.value.decode(errors="replace")

    def describe(self) -> dict[str, Any]:
        """Return what llama.cpp says of itself and of this context."""
        lib = self.lib
        return {
            "llama_cpp": lib.llama_version().decode(),
            "system_info": lib.llama_print_system_info().decode(),
            "model": self._description(),
            "file_type": self.meta("general.file_type"),
            "kv_type": self.kv_type,
            "threads": lib.llama_n_threads(self.context),
            "threads_batch": lib.llama_n_threads_batch(self.context),
            "n_ctx": lib.llama_n_ctx(self.context),
        }

    def _description(self) -> str:
        buffer = ctypes.create_string_buffer(256)
        self.lib.llama_model_desc(self.model, buffer, len(buffer))
        return buffer.value.decode(errors="replace")

    def _make_batch(self) -> None:
        """Allocate one batch for good, with numpy views on its fields."""
        self._batch = self.lib.llama_batch_init(self.n_batch, 0, 1)
        shape = (self.n_batch,)
        self._token = np.ctypeslib.as_array(self._batch.token, shape)
        self._pos = np.ctypeslib.as_array(self._batch.pos, shape)
        self._logits = np.ctypeslib.as_array(self._batch.logits, shape)
        np.ctypeslib.as_array(self._batch.n_seq_id, shape)[:] = 1
        for place in range(self.n_batch):
            self._batch.seq_id[place][0] = 0

    def _silence(self) -> None:
        """Keep llama.cpp's last lines for error messages instead of printing them all."""
        self._said: list[str] = []

        def keep(_level: int, text: bytes, _data: Any) -> None:
            self._said = [*self._said[-5:], text.decode(errors="replace").strip()]

        self._keep = self.lib.llama_log_callback(keep)
        self.lib.llama_log_set(self._keep, ctypes.c_void_p(0))

    def _last_words(self) -> str:
        return " / ".join(filter(None, self._said))
