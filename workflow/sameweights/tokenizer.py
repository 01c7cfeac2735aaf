"""The model's tokenizer as stock lm-eval's `hf` model uses it, without the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import has_bos_prefix

DEFAULT_WINDOW = 2048
WINDOW_KEYS = ("n_positions", "max_position_embeddings", "n_ctx")
MAX_GEN_TOKS = 256
"""What lm-eval's `hf` model generates where a task sets no budget."""


GENERIC_CLASSES = ("TokenizersBackend", "PreTrainedTokenizerFast")


def load_tokenizer(model_dir: Path) -> Any:
    """Load the folder's tokenizer as AutoTokenizer would, without torch where that is possible.

    AutoTokenizer imports torch (seconds); the generic classes load straight from tokenizer.json.
    """
    config = json.loads((model_dir / "tokenizer_config.json").read_text(encoding="utf-8"))
    if config.get("tokenizer_class") in GENERIC_CLASSES:
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast.from_pretrained(model_dir, local_files_only=True)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_dir, local_files_only=True, trust_remote_code=False)


class HubTokenizer(TemplateLM):  # type: ignore[misc]  # lm-eval ships no types
    """Encodes exactly as `HFLM` does; every request for a number is an error."""

    def __init__(self, model_dir: Path) -> None:
        super().__init__()
        self.tokenizer: Any = load_tokenizer(model_dir)
        config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
        self.window = next((config[k] for k in WINDOW_KEYS if config.get(k)), DEFAULT_WINDOW)

    @property
    def eot_token_id(self) -> int:
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        bos = self.tokenizer.bos_token_id
        return int(bos if bos is not None else self.tokenizer.eos_token_id)

    @property
    def tokenizer_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **_: Any
    ) -> list[int]:
        """Encode one string; a string that starts with the BOS token gets no second one."""
        special = {} if add_special_tokens is None else {"add_special_tokens": add_special_tokens}
        if add_special_tokens is None and has_bos_prefix(
            string, self.tokenizer.decode(self.prefix_token_id)
        ):
            special = {"add_special_tokens": False}
        return list(self.tokenizer.encode(string, **special))

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Token ids of a context and its continuation, by TemplateLM.loglikelihood's rules."""
        if context:
            prompt, scored = self._encode_pair(context, continuation)
            return list(prompt), list(scored)
        scored = self.tok_encode(continuation, add_special_tokens=False)
        if scored[:1] == [self.prefix_token_id]:
            return scored[:1], scored[1:]
        return [self.prefix_token_id], scored

    def _loglikelihood_tokens(self, requests: Any, **_: Any) -> Any:
        raise NotImplementedError("the hub runs no model")

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise NotImplementedError("the hub runs no model")

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise NotImplementedError("the hub runs no model")
