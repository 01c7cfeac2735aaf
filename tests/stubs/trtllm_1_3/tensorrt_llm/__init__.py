"""Stands in for tensorrt_llm 1.3 (PyTorch backend): LLM as in llmapi/llm.py, _TorchLLM."""

from typing import Any

from stub_model import StubModel

from tensorrt_llm.llmapi import BaseLLM

__version__ = "1.3.0"


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
        self.max_seq_len = kwargs["max_seq_len"]
        self.gathers = True, bool(kwargs.get("gather_generation_logits"))
        self.model = StubModel(model)
