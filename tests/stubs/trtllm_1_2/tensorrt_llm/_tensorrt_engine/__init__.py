"""Mirrors tensorrt_llm/_tensorrt_engine/__init__.py: LLM is llmapi.llm._TrtLLM."""

import json
from pathlib import Path
from typing import Any

from stub_model import StubModel

from tensorrt_llm.llmapi import BaseLLM


class LLM(BaseLLM):
    def __init__(
        self,
        model: str,
        tokenizer: str | None = None,
        tokenizer_mode: str = "auto",
        skip_tokenizer_init: bool = False,
        trust_remote_code: bool = False,
        tensor_parallel_size: int = 1,
        dtype: str = "auto",
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, kwargs)
        built = json.loads((Path(model) / "config.json").read_text())["build_config"]
        self.max_seq_len = built["max_seq_len"]
        self.gathers = built["gather_context_logits"], built["gather_generation_logits"]
        facts = json.loads((Path(model) / "rank0.engine").read_text())
        self.model = StubModel(facts["model_dir"], facts["fault"])
