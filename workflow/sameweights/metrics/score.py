"""Scores of both runs, their paired difference, and the flips both ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.flips import mcnemar_mid_p
from sameweights.metrics import Pair, Statistic, difference, mean, proportion


def measure(pair: Pair) -> list[Statistic]:
    """Return score_a, score_b, delta, right_to_wrong, wrong_to_right, mcnemar_mid_p.

    Right is a value of 1, wrong a value of 0; a metric with other values has no flips.
    """
    a, b = pair.items["value"].to_numpy(), pair.items["value_b"].to_numpy()
    mean_a, mean_b = (pair.items[f"mean_value{side}"].to_numpy() for side in ("", "_b"))
    found = [
        _with_mean(_score("score_a", a), a, mean_a),
        _with_mean(_score("score_b", b), b, mean_b),
        _with_mean(difference("delta", b - a, pair.strata), b - a, mean_b - mean_a),
    ]
    if not _is_binary(a) or not _is_binary(b):
        return found
    lost, won = (a == 1) & (b == 0), (a == 0) & (b == 1)
    p_value = mcnemar_mid_p(int(lost.sum()), int(won.sum()))
    return [
        *found,
        proportion("right_to_wrong", lost),
        proportion("wrong_to_right", won),
        Statistic("mcnemar_mid_p", len(a), p_value, None, None),
    ]


def _with_mean(
    found: Statistic, values: NDArray[np.float64], means: NDArray[np.float64]
) -> Statistic:
    """Note the mean over all replicates where they differ: flips are of one replicate each."""
    if np.array_equal(values, means):
        return found
    return replace(found, detail={"mean_over_replicates": float(means.mean())})


def _score(name: str, values: NDArray[np.float64]) -> Statistic:
    return proportion(name, values == 1) if _is_binary(values) else mean(name, values)


def _is_binary(values: NDArray[np.float64]) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())
