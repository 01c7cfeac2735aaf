"""TensorRT-LLM's PyTorch backend (1.3 and later), which has no engines.

Another backend than `trtllm_engine`: other kernels, other quantization, never the same label.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from runner.backends._folder import read_folder
from runner.backends._trtllm import Engine, Engines, LogitsBackend
from runner.backends._trtllm_llm import LlmApi, LlmEngine
from runner.contract import CellSpec
from runner.options import Option, match_recipe, resolve_options
from runner.runtime import Runtime

DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


class Backend(LogitsBackend):
    """Runs a folder of safetensors; batch 1, no block reuse, no CUDA graphs, no overlap."""

    OPTIONS: ClassVar[dict[str, Option]] = {
        "batch_size": Option(int, 1, (1,)),
        "attention": Option(str, "TRTLLM", ("TRTLLM", "FLASHINFER", "VANILLA")),
        "max_seq_len": Option(int, 2560, minimum=2),
        "tensor_parallel": Option(int, 1, minimum=1),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = tuple(
        {"weights": name, "activations": name, "compute": name} for name in DTYPES
    )
    RUNTIME: ClassVar[Runtime] = Runtime(
        package="tensorrt_llm",
        supported=">=1.3,<1.5",
        tried="sources",
        tried_version="1.3",
        note="scores from context logits: prompt_logprobs lacked the actual token before 1.3",
    )

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Check version and calls; the model is loaded when first needed."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        self.recipe = match_recipe(spec.recipe, self.PRECISIONS)
        self.version = self.RUNTIME.check()
        self.folder = read_folder(model_dir)
        self.model_dir = model_dir
        longest = int(self.options["max_seq_len"]) - 1
        self.window = self.folder.fit(longest)
        self.api = LlmApi("tensorrt_llm")
        self.engines = Engines(self._open, same=True)

    def describe(self) -> dict[str, Any]:
        """Return version and options."""
        return {
            "evidence": list(self.EVIDENCE),
            "token_ids": "as generated, a final end-of-text token included",
            "logits": "the runtime's, cut to the model's vocabulary, log-softmax in fp32 here",
            "tensorrt_llm": self.version,
            "options": self.options,
            "block_reuse": False,
            "repetition_penalty": self.folder.repetition_penalty,
            "window": self.window,
        }

    def _open(self, _purpose: str) -> Engine:
        return LlmEngine(
            self.api,
            self.model_dir,
            self.model_dir,
            int(self.options["max_seq_len"]),
            self.folder.tokenizer.eos_token_id,
            self.folder.repetition_penalty,
            self.folder.tokenizer.decode,
            dtype=DTYPES[self.recipe["compute"]],
            attn_backend=self.options["attention"],
            tensor_parallel_size=self.options["tensor_parallel"],
            max_batch_size=1,
            max_seq_len=self.options["max_seq_len"],
            max_num_tokens=self.options["max_seq_len"],
            cuda_graph_config=None,
            disable_overlap_scheduler=True,
        )
