"""Mirrors tensorrt_llm 1.2 and 1.3: sampling_params.py, llmapi, executor/result.py.

Fields of SamplingParams and KvCacheConfig that the adapters use, in the sources' order;
RequestOutput.context_logits [prompt, padded vocab], CompletionOutput.generation_logits
[tokens, padded vocab]. A text that ends by `end_id` does not hold that token; stop tokens stay
when include_stop_str_in_output is set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class SamplingParams:
    end_id: int | None = None
    pad_id: int | None = None
    max_tokens: int = 32
    bad: Any = None
    bad_token_ids: list[int] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    n: int = 1
    best_of: int | None = None
    use_beam_search: bool = False
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    return_context_logits: bool = False
    return_generation_logits: bool = False
    exclude_input_from_output: bool = True
    ignore_eos: bool = False
    detokenize: bool = True
    add_special_tokens: bool = True


@dataclass(kw_only=True)
class KvCacheConfig:
    enable_block_reuse: bool = True
    max_tokens: int | None = None
    max_attention_window: list[int] | None = None
    sink_token_length: int | None = None
    free_gpu_memory_fraction: float | None = 0.9


@dataclass
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    generation_logits: Any = None


@dataclass
class RequestOutput:
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    context_logits: Any = None


class BaseLLM:
    model: Any
    max_seq_len: int
    gathers: tuple[bool, bool]

    def __init__(self, tokenizer: str | None, arguments: dict[str, Any]) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(tokenizer)
        self.arguments = arguments

    def generate(
        self,
        inputs: list[int],
        sampling_params: SamplingParams | None = None,
        use_tqdm: bool = True,
    ) -> RequestOutput:
        params = sampling_params or SamplingParams()
        if len(inputs) + params.max_tokens > self.max_seq_len:
            raise ValueError("prompt and new tokens exceed max_seq_len")
        texts = [params.stop] if isinstance(params.stop, str) else params.stop or []
        stops = [[token] for token in params.stop_token_ids or []]
        stops += [self.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        ids, logits = self.model.write(
            inputs,
            params.max_tokens,
            stops,
            params.end_id,
            None if params.top_k == 1 else params.temperature,
            params.seed or 0,
        )
        context, generation = self.gathers
        if self.arguments["kv_cache_config"].enable_block_reuse:
            self.model.fault = "suffix"
        output = CompletionOutput(0, token_ids=ids)
        if params.return_generation_logits and generation:
            output.generation_logits = logits
        answer = RequestOutput(inputs, [output])
        if params.return_context_logits and context:
            answer.context_logits = self.model.context_logits(inputs)
        return answer

    def shutdown(self) -> None:
        del self.model
