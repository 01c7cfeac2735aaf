"""What a model folder says about its text, read without transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.checks import CheckFailure

UNSUPPORTED_GENERATION = (
    "bad_words_ids",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "suppress_tokens",
)
"""Keys of generation_config.json that would change greedy text and that are not implemented."""


@dataclass(frozen=True)
class Tokenizer:
    """tokenizer.json and the end-of-text token of tokenizer_config.json."""

    encoder: Any
    eos_token_id: int

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(self.encoder.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: int | list[int], skip_special_tokens: bool = False) -> str:
        ids = [ids] if isinstance(ids, int) else ids
        return str(self.encoder.decode(ids, skip_special_tokens=skip_special_tokens))


@dataclass(frozen=True)
class Folder:
    """A model folder's window, tokenizer and rules of generation."""

    window: int | None
    vocab: int
    tokenizer: Tokenizer
    eos_ids: frozenset[int]
    repetition_penalty: float

    def fit(self, longest: int) -> int:
        """Return the positions left where an engine holds `longest` at most."""
        return min(longest, self.window or longest)


def read_folder(folder: Path) -> Folder:
    """Read config.json, generation_config.json and the tokenizer's files.

    Raises CheckFailure for a generation setting that is not implemented and for a tokenizer
    without an end-of-text token.
    """
    from tokenizers import Tokenizer as Encoder

    config = json.loads((folder / "config.json").read_bytes())
    settings = folder / "generation_config.json"
    generation = json.loads(settings.read_bytes()) if settings.exists() else config
    refuse_unsupported(folder, generation)
    encoder = Encoder.from_file(str(folder / "tokenizer.json"))
    named = json.loads((folder / "tokenizer_config.json").read_bytes()).get("eos_token")
    eos_text = named["content"] if isinstance(named, dict) else named
    eos = encoder.token_to_id(eos_text) if eos_text else None
    if eos is None:
        raise CheckFailure(
            f"{folder / 'tokenizer_config.json'}: key 'eos_token' is {named!r}; "
            "a token of tokenizer.json is needed"
        )
    listed = generation.get("eos_token_id")
    more = listed if isinstance(listed, list) else [listed]
    return Folder(
        window=config.get("max_position_embeddings"),
        vocab=config["vocab_size"],
        tokenizer=Tokenizer(encoder, eos),
        eos_ids=frozenset({eos, *more} - {None}),
        repetition_penalty=float(generation.get("repetition_penalty") or 1.0),
    )


def refuse_unsupported(folder: Path, generation: Mapping[str, Any]) -> None:
    """Raise CheckFailure for a generation setting that would change greedy text."""
    for key in UNSUPPORTED_GENERATION:
        if value := generation.get(key):
            raise CheckFailure(
                f"{folder / 'generation_config.json'}: key {key!r} is {value!r}; not implemented"
            )
