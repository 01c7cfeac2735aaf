"""TensorRT-LLM 1.x through its LLM class: an engine folder, or (PyTorch backend) a checkpoint.

Written from the package's sources (llmapi/llm.py, sampling_params.py, executor/result.py); not
run on a GPU.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from runner.backends._trtllm import Written
from runner.backends._writing import draw_seed
from runner.contract import Request
from runner.runtime import require_parameters

SAMPLING = (
    "end_id",
    "pad_id",
    "max_tokens",
    "stop_token_ids",
    "stop",
    "include_stop_str_in_output",
    "top_k",
    "top_p",
    "temperature",
    "seed",
    "repetition_penalty",
    "return_context_logits",
    "return_generation_logits",
    "exclude_input_from_output",
    "detokenize",
    "add_special_tokens",
)
NO_END = -1
"""The engine drops the token that ends a text by `end_id`; stop tokens are kept."""


class LlmApi:
    """The classes that are used, imported once; `module` has the LLM class."""

    def __init__(self, module: str) -> None:
        """Raises CheckFailure when an argument that is used is not there."""
        self.LLM: Any = importlib.import_module(module).LLM
        api = importlib.import_module("tensorrt_llm.llmapi")
        self.SamplingParams: Any = api.SamplingParams
        self.KvCacheConfig: Any = api.KvCacheConfig
        require_parameters(self.SamplingParams, SAMPLING, "tensorrt_llm SamplingParams")
        require_parameters(
            self.KvCacheConfig,
            ("enable_block_reuse", "max_tokens"),
            "tensorrt_llm KvCacheConfig",
        )
        require_parameters(self.LLM, ("model", "tokenizer"), "tensorrt_llm LLM")


class LlmEngine:
    """One LLM object, one request at a time, block reuse off."""

    def __init__(
        self,
        api: LlmApi,
        model: Path,
        tokenizer: Path,
        max_tokens: int,
        pad_id: int,
        penalty: float,
        decode: Any,
        **arguments: Any,
    ) -> None:
        self.api = api
        self.pad_id = pad_id
        self.penalty = penalty
        self.decode = decode
        self.llm = api.LLM(
            model=str(model),
            tokenizer=str(tokenizer),
            kv_cache_config=api.KvCacheConfig(enable_block_reuse=False, max_tokens=max_tokens),
            gather_generation_logits=True,
            **arguments,
        )

    def context_logits(self, ids: list[int]) -> Any:
        """Return the logits after every token of `ids`; one more token is written and dropped."""
        answer = self._run(ids, max_tokens=1, top_k=1, return_context_logits=True)
        return answer.context_logits

    def write(self, request: Request, stop_ids: list[list[int]]) -> Written:
        """Write with the engine's sampler; what ended the text is kept in the ids."""
        settings: dict[str, Any] = {"seed": draw_seed(request), "top_k": 1}
        if request.temperature != 0.0:
            settings |= {"temperature": request.temperature, "top_p": request.top_p}
            settings["top_k"] = request.top_k or None
        if self.penalty != 1.0:
            settings["repetition_penalty"] = self.penalty
        answer = self._run(
            request.prompt_ids,
            max_tokens=request.max_new_tokens,
            return_generation_logits=True,
            stop_token_ids=[ids[0] for ids in stop_ids if len(ids) == 1],
            stop=[self.decode(ids) for ids in stop_ids if len(ids) > 1] or None,
            **settings,
        )
        output = answer.outputs[0]
        ids = list(output.token_ids)
        logits = output.generation_logits
        return Written(ids, None if logits is None else logits[: len(ids)])

    def close(self) -> None:
        self.llm.shutdown()

    def _run(self, ids: list[int], **settings: Any) -> Any:
        return self.llm.generate(
            ids,
            sampling_params=self.api.SamplingParams(
                end_id=NO_END,
                pad_id=self.pad_id,
                include_stop_str_in_output=True,
                exclude_input_from_output=True,
                detokenize=False,
                add_special_tokens=False,
                **settings,
            ),
            use_tqdm=False,
        )
