"""Stands in for tensorrt_llm/llmapi; see stub_llm_api.py."""

from stub_llm_api import BaseLLM, KvCacheConfig, SamplingParams

__all__ = ["BaseLLM", "KvCacheConfig", "SamplingParams"]
