"""Stands in for sglang 0.5: srt/server_args.py, the fields that the adapter uses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ServerArgs:
    model_path: str
    tokenizer_path: str | None = None
    skip_tokenizer_init: bool = False
    trust_remote_code: bool = False
    context_length: int | None = None
    dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = None
    random_seed: int | None = None
    tp_size: int = 1
    attention_backend: str | None = None
    sampling_defaults: str = "model"
    disable_radix_cache: bool = False
    disable_cuda_graph: bool = False
    enable_deterministic_inference: bool = False
    log_level: str = "info"
