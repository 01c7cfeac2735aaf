"""A TensorRT-LLM 0.12 engine through the Executor bindings (the generation that Jetson has).

Written from the bindings' source (cpp/tensorrt_llm/pybind/executor); not run on a GPU.
"""

from __future__ import annotations

import importlib
from datetime import timedelta
from pathlib import Path
from typing import Any

from runner.backends._trtllm import Written
from runner.backends._writing import draw_seed
from runner.contract import Request
from runner.runtime import require_parameters

ARGUMENTS = {
    "ExecutorConfig": ("max_beam_width", "kv_cache_config", "enable_chunked_context"),
    "KvCacheConfig": ("enable_block_reuse", "max_tokens"),
    "SamplingConfig": (
        "beam_width",
        "top_k",
        "top_p",
        "temperature",
        "random_seed",
        "repetition_penalty",
    ),
    "OutputConfig": (
        "return_log_probs",
        "return_context_logits",
        "return_generation_logits",
        "exclude_input_from_output",
    ),
    "Request": (
        "input_token_ids",
        "max_new_tokens",
        "sampling_config",
        "output_config",
        "end_id",
        "pad_id",
        "stop_words",
    ),
}
WAIT = timedelta(hours=1)
"""Longer than any request: the cell's own timeout ends a request that hangs."""


def load_bindings() -> Any:
    """Import the bindings; raises CheckFailure when an argument that is used is not there."""
    bindings = importlib.import_module("tensorrt_llm.bindings.executor")
    for name, arguments in ARGUMENTS.items():
        require_parameters(getattr(bindings, name), arguments, f"tensorrt_llm Executor: {name}")
    return bindings


class ExecutorEngine:
    """One engine folder, batch 1, beam 1, block reuse off."""

    def __init__(
        self, bindings: Any, folder: Path, max_tokens: int, pad_id: int, penalty: float
    ) -> None:
        self.bindings = bindings
        self.pad_id = pad_id
        self.penalty = penalty
        # Without max_tokens the runtime takes nine tenths of the free memory for the KV cache.
        cache = bindings.KvCacheConfig(enable_block_reuse=False, max_tokens=max_tokens)
        config = bindings.ExecutorConfig(
            max_beam_width=1, kv_cache_config=cache, enable_chunked_context=False
        )
        self.executor = bindings.Executor(str(folder), bindings.ModelType.DECODER_ONLY, config)

    def context_logits(self, ids: list[int]) -> Any:
        """Return the logits after every token of `ids`; one more token is written and dropped."""
        greedy = self.bindings.SamplingConfig(beam_width=1, top_k=1)
        return self._run(ids, 1, greedy, [], context=True).context_logits

    def write(self, request: Request, stop_ids: list[list[int]]) -> Written:
        """Write with the engine's sampler; end-of-text tokens are stop words, so they are kept."""
        result = self._run(
            request.prompt_ids, request.max_new_tokens, self._sampling(request), stop_ids
        )
        ids = list(result.output_token_ids[0])
        logits = result.generation_logits
        # Rows beyond the last token are there when the text ended before its limit.
        return Written(ids, None if logits is None else logits[0][: len(ids)])

    def close(self) -> None:
        self.executor.shutdown()

    def _sampling(self, request: Request) -> Any:
        settings: dict[str, Any] = {"beam_width": 1, "random_seed": draw_seed(request)}
        if self.penalty != 1.0:
            settings["repetition_penalty"] = self.penalty
        if request.temperature == 0.0:
            settings["top_k"] = 1
        else:
            settings["temperature"] = request.temperature
            settings["top_p"] = request.top_p
            if request.top_k > 0:
                settings["top_k"] = request.top_k
        return self.bindings.SamplingConfig(**settings)

    def _run(
        self,
        ids: list[int],
        limit: int,
        sampling: Any,
        stops: list[list[int]],
        context: bool = False,
    ) -> Any:
        output = self.bindings.OutputConfig(
            return_log_probs=False,
            return_context_logits=context,
            return_generation_logits=not context,
            exclude_input_from_output=True,
        )
        number = self.executor.enqueue_request(
            self.bindings.Request(
                input_token_ids=ids,
                max_new_tokens=limit,
                sampling_config=sampling,
                output_config=output,
                end_id=None,
                pad_id=self.pad_id,
                stop_words=stops or None,
            )
        )
        (response,) = self.executor.await_responses(number, WAIT)
        if response.has_error():
            raise RuntimeError(f"the executor refused the request: {response.error_msg}")
        return response.result
