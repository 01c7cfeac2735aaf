"""Stands in for sglang 0.5: srt/sampling/sampling_params.py, the fields that the adapter uses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class SamplingParams:
    max_new_tokens: int | None = 128
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 1 << 30
    repetition_penalty: float = 1.0
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    no_stop_trim: bool = False
    sampling_seed: int | None = None
