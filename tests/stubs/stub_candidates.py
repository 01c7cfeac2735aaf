"""The candidates of positions, as runtimes give them that cut padding and hand out no logits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stub_model import PAD, StubModel

Candidates = dict[int, float]


class CandidatesModel:
    """The model behind the stand-ins of vLLM and SGLang; its fault stands in STUB_FAULT."""

    def __init__(self, folder: str | Path) -> None:
        from transformers import AutoTokenizer

        self.model = StubModel(folder, os.environ.get("STUB_FAULT", "none"))
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def score(self, ids: list[int], count: int) -> list[Candidates]:
        """Candidates of every token but the first."""
        rows = self.model.context_logits(ids)[:-1]
        return take(rows, ids[-len(rows) :] if len(rows) else [], count)

    def write(
        self, ids: list[int], limit: int, texts: list[str], ends: list[int], count: int,
        temperature: float, seed: int,
    ) -> tuple[list[int], list[Candidates]]:  # fmt: skip
        """Ids and the candidates of each; what ended the text is kept."""
        stops = [[token] for token in ends]
        stops += [self.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        written, logits = self.model.write(ids, limit, stops, None, temperature or None, seed)
        return written, take(logits, written[-len(logits) :], count)


def take(rows: Any, tokens: list[int], count: int) -> list[Candidates]:
    """The best `count` of each row, and its own token."""
    found = []
    for row, token in zip(rows[:, :-PAD].log_softmax(-1), tokens, strict=True):
        best = row.topk(count)
        entry = dict(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        if token < len(row):
            entry[token] = float(row[token])
        found.append(entry)
    return found
