"""Stands in for vllm 0.33: entrypoints/llm.py (LLM), engine/arg_utils.py (EngineArgs),
sampling_params.py (SamplingParams), outputs.py (RequestOutput, CompletionOutput), logprobs.py.

Fields that the adapter uses and some beside them. `prompt_logprobs` has one entry a prompt token,
None for the first; an entry maps token ids to Logprob, the token's own always among them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from stub_candidates import Candidates, CandidatesModel

__version__ = "0.33.0"


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class EngineArgs:
    model: str
    tokenizer: str | None = None
    skip_tokenizer_init: bool = False
    trust_remote_code: bool = False
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    seed: int = 0
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    enable_prefix_caching: bool | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    max_logprobs: int = 20
    logprobs_mode: str = "raw_logprobs"
    quantization: str | None = None
    enforce_eager: bool = False
    enable_chunked_prefill: bool | None = None
    generation_config: str = "auto"
    attention_backend: str | None = None


@dataclass
class SamplingParams:
    n: int = 1
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False

    def __post_init__(self) -> None:
        if self.stop and not self.detokenize:
            raise ValueError("stop strings are only supported when detokenize is True")


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int] | None
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput]
    finished: bool


class LLM:
    def __init__(self, model: str, *, tokenizer: str | None = None, **kwargs: Any) -> None:
        unknown = set(kwargs) - {field.name for field in fields(EngineArgs)}
        if unknown:
            raise TypeError(f"EngineArgs has no {sorted(unknown)}")
        self.arguments = EngineArgs(model, tokenizer, **kwargs)
        if self.arguments.quantization == "fp8":
            raise ValueError("the `fp8` method no longer supports online quantization")
        self.model = CandidatesModel(model)

    def generate(
        self,
        prompts: list[dict[str, list[int]]],
        sampling_params: SamplingParams | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        params = sampling_params or SamplingParams()
        return [self._answer(prompt["prompt_token_ids"], params) for prompt in prompts]

    def _answer(self, ids: list[int], params: SamplingParams) -> RequestOutput:
        limit = params.max_tokens or 16
        if len(ids) + limit > (self.arguments.max_model_len or 0):
            raise ValueError("prompt and new tokens exceed max_model_len")
        stops = [params.stop] if isinstance(params.stop, str) else params.stop or []
        count = params.logprobs or params.prompt_logprobs or 1
        if count > self.arguments.max_logprobs:
            raise ValueError("more logprobs than max_logprobs")
        written, found = self.model.write(
            ids, limit, stops, params.stop_token_ids or [], count,
            params.temperature, params.seed or 0,
        )  # fmt: skip
        scored: list[dict[int, Logprob] | None] | None = None
        if params.prompt_logprobs is not None:
            scored = [None, *spell(self.model.score(ids, count))]
        logprobs = spell(found) if params.logprobs is not None else None
        output = CompletionOutput(0, "", written, None, logprobs)
        return RequestOutput("0", None, ids, scored, [output], True)


def spell(found: list[Candidates]) -> list[dict[int, Logprob]]:
    return [{token: Logprob(value) for token, value in entry.items()} for entry in found]
