"""Scoring and generation in padded batches, for runtimes that keep a KV cache and return arrays.

The first call of a text gets whole padded rows, every later one a token a row.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from runner.backends._evidence import FULL_EVIDENCE
from runner.backends._folder import Folder
from runner.backends._numpy_evidence import Evidence, choose, penalize
from runner.backends._writing import Writing, draw_seed
from runner.contract import Request, Response
from runner.plan import Row, cut_windows, plan_batches


class Engine(Protocol):
    """A loaded model with a KV cache of its own.

    `padding` is the side on which its rows may be padded when they are continued.
    """

    padding: Literal["left", "right"]

    def start(self, ids: Any, mask: Any, capacity: int) -> Any:
        """Forget the cache and run ids [B, T] under mask [B, T]; return logits [B, T, vocab].

        `capacity` is the most positions that the text will take, its padding included.
        """

    def step(self, ids: Any, mask: Any) -> Any:
        """Run one token a row, ids [B, 1], under mask [B, width]; return logits [B, 1, vocab].

        They may be overwritten by the next call.
        """

    def describe(self) -> dict[str, Any]:
        """Return what the runtime says of itself."""


class CachedBackend:
    """The part of a backend that does not depend on how its engine is called."""

    EVIDENCE: ClassVar[tuple[str, ...]] = FULL_EVIDENCE
    batch_size: int
    engine: Engine
    folder: Folder
    options: dict[str, Any]
    version: str

    @property
    def window(self) -> int | None:
        """The most positions that the model has."""
        return self.folder.window

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        """Cut into batches in file order."""
        return plan_batches(requests, self.batch_size)

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        """Score the continuations of one batch."""
        return score_rows(self.engine, self.folder, batch, self.batch_size)

    def generate(self, batch: list[Request]) -> list[Response]:
        """Generate for one batch."""
        return generate_rows(self.engine, self.folder, batch)

    def describe(self) -> dict[str, Any]:
        """Return the versions and settings really in force."""
        return {
            "evidence": list(self.EVIDENCE),
            "token_ids": "as generated, a final end-of-text token included",
            "options": self.options,
            "version": self.version,
            "window": self.window,
            **self.engine.describe(),
        }


def score_rows(
    engine: Engine, folder: Folder, batch: list[Request], batch_size: int
) -> list[Response]:
    """Run every (prompt, continuation) in full; rows are padded on the right.

    Padding needs no mask there: causal attention never looks at it.
    """
    rows = [(request, row) for request in batch for row in cut_windows(request, folder.window)]
    evidence = {request.request_id: Evidence() for request in batch}
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        for (request, row), logits in zip(part, _run_rows(engine, part), strict=True):
            evidence[request.request_id].add(logits, row[1])
    return [evidence[request.request_id].score(request) for request in batch]


def _run_rows(engine: Engine, part: list[tuple[Request, Row]]) -> list[Any]:
    """Return the logits [len(continuation), vocab] of each row from one forward pass."""
    inputs = [(context + text)[:-1] for _, (context, text) in part]
    ids, _ = pad(inputs, "right")
    logits = engine.start(ids, np.ones_like(ids), ids.shape[1])
    return [
        logits[index, len(row) - len(text) : len(row)]
        for index, (row, (_, (_, text))) in enumerate(zip(inputs, part, strict=True))
    ]


def generate_rows(engine: Engine, folder: Folder, batch: list[Request]) -> list[Response]:
    """Generate for all requests of a batch until the last has ended.

    Rows that have ended stay in the batch as padding: the batch's shape, and with it the choice
    of kernels, does not depend on when they end.
    """
    rows = [_Row(request, folder) for request in batch]
    ids, mask = pad([request.prompt_ids for request in batch], engine.padding)
    capacity = ids.shape[1] + max(row.limit for row in rows)
    lengths = mask.sum(axis=1)
    ends = lengths - 1 if engine.padding == "right" else np.full(len(rows), -1)
    logits = engine.start(ids, mask, capacity)[np.arange(len(rows)), ends]
    while True:
        for row, scores in zip(rows, logits, strict=True):
            if row.finish is None:
                row.choose(scores)
        if all(row.finish for row in rows):
            return [row.answer(row.evidence.fields()) for row in rows]
        lengths = lengths + 1
        # An unfinished row feeds its token on; an ended one feeds padding.
        ids = np.array([[0 if row.finish else row.ids[-1]] for row in rows], dtype=np.int64)
        mask = mask_of(lengths, mask.shape[1] + 1, engine.padding)
        logits = engine.step(ids, mask)[:, 0]


class _Row(Writing):
    """One request while it is being generated; its evidence ends when it ends."""

    def __init__(self, request: Request, folder: Folder) -> None:
        super().__init__(request, folder.tokenizer, folder.eos_ids, folder.window)
        self.penalty = folder.repetition_penalty
        self.evidence = Evidence()
        self.generator = np.random.default_rng(draw_seed(request))

    def choose(self, logits: Any) -> None:
        """Choose the next token after logits [vocab] and keep their evidence."""
        scores = penalize(
            np.asarray(logits, dtype=np.float32), self.request.prompt_ids + self.ids, self.penalty
        )
        token = choose(scores, self.request, self.generator)
        self.evidence.add(logits[None], [token])
        self.extend(token)


def pad(rows: list[list[int]], side: Literal["left", "right"]) -> tuple[Any, Any]:
    """Return ids and mask [B, T], int64, padded with zeros on one side."""
    width = max(map(len, rows))
    mask = mask_of(np.array([len(row) for row in rows]), width, side)
    ids = np.zeros_like(mask)
    ids[mask == 1] = [token for row in rows for token in row]
    return ids, mask


def mask_of(lengths: Any, width: int, side: Literal["left", "right"]) -> Any:
    """Return the mask [B, width], int64, of rows of these lengths padded on one side."""
    places = np.arange(width)[None]
    own = lengths[:, None]
    return (places < own if side == "right" else places >= width - own).astype(np.int64)
