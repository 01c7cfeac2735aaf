"""Where generated answers part: index of the first differing token, and the margin there."""

from __future__ import annotations

import numpy as np

from sameweights.metrics import Pair, Statistic, mean


def first_difference(left: list[int], right: list[int]) -> int | None:
    """Return the index of the first token that differs (or that only one has), or None."""
    if left == right:
        return None
    pairs = zip(left, right, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def measure(pair: Pair) -> list[Statistic]:
    """Return mean_divergence_index and mean_margin_at_divergence (nats, of the first run).

    A multiple-choice item counts with the margin of its choice when the choice differs.
    """
    columns = ["token_ids", "token_ids_b", "margins", "margin", "answer_tokens", "answer_tokens_b"]
    indexes, margins = [], []
    for ids, ids_b, gaps, gap, answer, answer_b in pair.items.select(columns).iter_rows():
        if ids is not None and ids_b is not None:  # an empty answer is an answer
            index = first_difference(ids, ids_b)
            if index is not None:
                indexes.append(float(index))
                if gaps and index < len(gaps):
                    margins.append(float(gaps[index]))
        elif gap is not None and answer != answer_b:
            margins.append(float(gap))
    return [
        mean("mean_divergence_index", np.array(indexes)),
        mean("mean_margin_at_divergence", np.array(margins)),
    ]
