"""What every TensorRT-LLM backend shares: scores from context logits, text from written tokens.

The engine behind it gives logits over a vocabulary padded for the GPU; rows are cut to the
model's own vocabulary before anything is computed from them. Nothing here was run on a GPU: what
an engine returns is checked by its shape before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from runner.backends._evidence import FULL_EVIDENCE
from runner.backends._folder import Folder
from runner.backends._writing import Writing, check_written, follow
from runner.contract import Request, Response
from runner.plan import cut_windows, plan_batches

TIE = 1e-2
"""A greedy token's logit may lie this far below the best one: the engine may round its logits."""


@dataclass(frozen=True)
class Written:
    """Tokens that an engine wrote, and the logits it chose them by, [tokens, padded vocab]."""

    ids: list[int]
    logits: Any


class Engine(Protocol):
    """One loaded engine; block reuse is off, one request at a time."""

    def context_logits(self, ids: list[int]) -> Any:
        """Return logits [len(ids), padded vocab]: row i is the distribution after token i."""
        ...

    def write(self, request: Request, stop_ids: list[list[int]]) -> Written:
        """Write until one of the token sequences `stop_ids` (kept in the ids) or the limit."""
        ...

    def close(self) -> None: ...


class Engines:
    """Opens the engine of a purpose when it is needed; never two at once (8 GB boards)."""

    def __init__(self, open_engine: Callable[[str], Engine], same: bool) -> None:
        self._open = open_engine
        self._same = same
        self._purpose: str | None = None
        self._engine: Engine | None = None

    def get(self, purpose: str) -> Engine:
        """Return the engine for `scoring` or `generation`."""
        if self._engine is None or (purpose != self._purpose and not self._same):
            if self._engine is not None:
                self._engine.close()
                self._engine = None
            self._engine = self._open(purpose)
        self._purpose = purpose
        return self._engine


class LogitsBackend:
    """The part of a backend that does not depend on how its engine is called."""

    EVIDENCE: ClassVar[tuple[str, ...]] = FULL_EVIDENCE
    folder: Folder
    window: int | None
    engines: Engines

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        """One request a batch: what shares a batch changes the kernels."""
        return plan_batches(requests, 1)

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        """Score from the context logits of the whole text."""
        return [self._score(request) for request in batch]

    def generate(self, batch: list[Request]) -> list[Response]:
        """Write with the engine's own loop; the end is found by the rules of every backend."""
        return [self._write(request) for request in batch]

    def _score(self, request: Request) -> Response:
        from runner.backends._numpy_evidence import Evidence

        evidence = Evidence()
        engine = self.engines.get("scoring")
        for context, text in cut_windows(request, self.window):
            ids = context + text[:-1]
            rows = check_rows(engine.context_logits(ids), len(ids), self.folder.vocab)
            evidence.add(rows[len(context) - 1 :], text)
        return evidence.score(request)

    def _write(self, request: Request) -> Response:
        from runner.backends._numpy_evidence import Evidence

        folder = self.folder
        writing = Writing(request, folder.tokenizer, folder.eos_ids, self.window)
        # A stop string usually comes as these tokens; where it does not, the engine writes to the
        # limit and the text is cut here all the same.
        stops = [folder.tokenizer.encode(s, add_special_tokens=False) for s in writing.stops]
        stops = [[token] for token in sorted(folder.eos_ids)] + [s for s in stops if s]
        written = self.engines.get("generation").write(request, stops)
        ids = check_written(written.ids, request, folder.vocab)
        follow(writing, ids)
        count = len(writing.ids)
        rows = check_rows(written.logits, len(ids), folder.vocab)[:count]
        if request.temperature == 0.0 and folder.repetition_penalty == 1.0:
            check_greedy(rows, writing.ids)
        evidence = Evidence()
        evidence.add(rows, writing.ids)
        return writing.answer(evidence.fields())


def check_rows(logits: Any, count: int, vocab: int) -> Any:
    """Return fp32 rows [count, vocab] of an engine's logits; raises ValueError for other shapes.

    Accepts a tensor of torch or an array, [rows, padded vocab] with an optional leading 1.
    """
    import numpy as np

    if logits is None:
        raise ValueError("the engine gave no logits; it must be built with the gather flags")
    if hasattr(logits, "cpu"):
        logits = logits.float().cpu().numpy()
    rows = np.asarray(logits, dtype=np.float32)
    if rows.ndim == 3 and rows.shape[0] == 1:
        rows = rows[0]
    if rows.ndim != 2 or rows.shape[0] != count:
        raise ValueError(
            f"logits of shape {rows.shape} for {count} tokens; usual cause: KV cache block reuse, "
            "which returns the logits of a suffix only"
        )
    if rows.shape[1] < vocab:
        raise ValueError(f"logits over {rows.shape[1]} tokens; the model's vocabulary is {vocab}")
    return rows[:, :vocab]


def check_greedy(rows: Any, ids: list[int]) -> None:
    """Raise ValueError unless every greedy token has the best logit of its own row."""
    for place, (row, token) in enumerate(zip(rows, ids, strict=True)):
        if row[token] < row.max() - TIE:
            raise ValueError(
                f"token {place} of a greedy text has not the best logit of its row; usual cause: "
                "generation logits one position off"
            )
