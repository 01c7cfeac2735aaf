"""Evidence and token choice from logits rows in numpy, for runtimes that hand out arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from runner.backends._evidence import TOP, EvidenceLists
from runner.contract import Request


class Evidence(EvidenceLists):
    """Evidence from numpy logits."""

    def add(self, logits: Any, chosen: list[int]) -> None:
        """Add logits rows [T, vocab] and the ids [T] chosen there; log-softmax in fp32."""
        rows = np.ascontiguousarray(logits, dtype="<f4")
        logprobs = log_softmax(rows)
        picked = logprobs[np.arange(len(chosen)), chosen]
        ids = best_ids(rows, TOP)
        top = np.take_along_axis(logprobs, ids, axis=1)
        self.loglikelihood += float(picked.sum())
        self.is_greedy &= bool((ids[:, 0] == chosen).all())
        self.extend(picked, top[:, 0] - top[:, 1], ids, top, rows.data)


def log_softmax(rows: Any) -> Any:
    """Return the log-softmax of fp32 rows [T, vocab]."""
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def best_ids(rows: Any, count: int) -> Any:
    """Return the `count` best ids of every row [T, count], best first, the lower id at a tie."""
    left = rows.copy()
    ids = np.empty((len(rows), count), dtype=np.int64)
    for place in range(count):
        ids[:, place] = left.argmax(axis=1)
        left[np.arange(len(rows)), ids[:, place]] = -np.inf
    return ids


def choose(scores: Any, request: Request, generator: np.random.Generator) -> int:
    """Return the argmax of `scores` [vocab], or a draw if the request has a temperature."""
    if request.temperature == 0.0:
        return int(scores.argmax())
    scaled = scores.astype(np.float64) / request.temperature
    if request.top_k > 0:
        floor = np.sort(scaled)[-min(request.top_k, scaled.size)]
        scaled[scaled < floor] = -np.inf
    odds = np.exp(scaled - scaled.max())
    odds /= odds.sum()
    order = np.argsort(-odds, kind="stable")
    reached = odds[order].cumsum()
    odds = np.where(reached - odds[order] < request.top_p, odds[order], 0.0)
    return int(order[generator.choice(odds.size, p=odds / odds.sum())])


def penalize(scores: Any, history: list[int], penalty: float) -> Any:
    """Apply the model folder's repetition penalty to `scores` [vocab] (Keskar et al. 2019)."""
    if penalty == 1.0:
        return scores
    seen = np.unique(history)
    scores = scores.copy()
    scores[seen] = np.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
    return scores
