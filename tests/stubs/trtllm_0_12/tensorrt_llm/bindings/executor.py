"""Mirrors cpp/tensorrt_llm/pybind/executor/{bindings,executor}.cpp of 0.12.

Argument names and order as in the `py::arg` of each constructor; shapes of results as in
executor.h: output_token_ids [beam][token], context_logits [prompt, padded vocab],
generation_logits [beam, max_new_tokens, padded vocab].
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from stub_model import StubModel


class ModelType(Enum):
    DECODER_ONLY = 1


@dataclass
class KvCacheConfig:
    enable_block_reuse: bool = False
    max_tokens: int | None = None
    max_attention_window: int | None = None
    sink_token_length: int | None = None
    free_gpu_memory_fraction: float | None = None
    host_cache_size: int | None = None
    onboard_blocks: bool = True


@dataclass
class ExecutorConfig:
    max_beam_width: int = 1
    scheduler_config: Any = None
    kv_cache_config: KvCacheConfig = field(default_factory=KvCacheConfig)
    enable_chunked_context: bool = False
    normalize_log_probs: bool = True


@dataclass
class SamplingConfig:
    beam_width: int = 1
    top_k: int | None = None
    top_p: float | None = None
    top_p_min: float | None = None
    top_p_reset_ids: int | None = None
    top_p_decay: float | None = None
    random_seed: int | None = None
    temperature: float | None = None
    min_length: int | None = None
    beam_search_diversity_rate: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    length_penalty: float | None = None
    early_stopping: int | None = None
    no_repeat_ngram_size: int | None = None


@dataclass
class OutputConfig:
    return_log_probs: bool = False
    return_context_logits: bool = False
    return_generation_logits: bool = False
    exclude_input_from_output: bool = False
    return_encoder_output: bool = False


@dataclass
class Request:
    input_token_ids: list[int]
    max_new_tokens: int
    streaming: bool = False
    sampling_config: SamplingConfig = field(default_factory=SamplingConfig)
    output_config: OutputConfig = field(default_factory=OutputConfig)
    end_id: int | None = None
    pad_id: int | None = None
    bad_words: list[list[int]] | None = None
    stop_words: list[list[int]] | None = None
    embedding_bias: Any = None
    external_draft_tokens_config: Any = None
    prompt_tuning_config: Any = None
    lora_config: Any = None
    logits_post_processor_name: str | None = None
    encoder_input_token_ids: list[int] | None = None


@dataclass
class Result:
    is_final: bool = True
    output_token_ids: list[list[int]] = field(default_factory=list)
    cum_log_probs: list[float] | None = None
    log_probs: list[list[float]] | None = None
    context_logits: Any = None
    generation_logits: Any = None
    encoder_output: Any = None


@dataclass
class Response:
    request_id: int
    result: Result
    error_msg: str = ""

    def has_error(self) -> bool:
        return bool(self.error_msg)


class Executor:
    def __init__(self, model_path: str, model_type: ModelType, executor_config: ExecutorConfig):
        folder = Path(model_path)
        self.built = json.loads((folder / "config.json").read_text())["build_config"]
        facts = json.loads((folder / "rank0.engine").read_text())
        self.model = StubModel(facts["model_dir"], facts["fault"])
        self.config = executor_config
        self.waiting: dict[int, Request] = {}
        self.count = 0

    def enqueue_request(self, request: Request) -> int:
        self.count += 1
        self.waiting[self.count] = request
        return self.count

    def await_responses(self, id: int, timeout: Any = None) -> list[Response]:
        request = self.waiting.pop(id)
        output, sampling = request.output_config, request.sampling_config
        result = Result()
        if len(request.input_token_ids) + request.max_new_tokens > self.built["max_seq_len"]:
            return [Response(id, result, "prompt and new tokens exceed max_seq_len")]
        if output.return_context_logits:
            if not self.built["gather_context_logits"]:
                return [Response(id, result, "the engine was built without gather_context_logits")]
            result.context_logits = self.model.context_logits(request.input_token_ids)
        ids, logits = self.model.write(
            request.input_token_ids,
            request.max_new_tokens,
            request.stop_words or [],
            request.end_id,
            None if sampling.top_k == 1 else sampling.temperature,
            sampling.random_seed or 0,
        )
        head = [] if output.exclude_input_from_output else request.input_token_ids
        result.output_token_ids = [head + ids]
        if output.return_generation_logits:
            if not self.built["gather_generation_logits"]:
                return [Response(id, result, "built without gather_generation_logits")]
            room = request.max_new_tokens - len(logits)
            result.generation_logits = torch.nn.functional.pad(logits, (0, 0, 0, room))[None]
        return [Response(id, result)]

    def shutdown(self) -> None:
        del self.model
