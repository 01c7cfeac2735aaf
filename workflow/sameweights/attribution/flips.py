"""Correctness flips between two cells: McNemar's test and corrections for many tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats


def mcnemar_exact(b: int, c: int) -> float:
    """Two-sided exact p value: flips are fair coins under no difference. 1.0 without flips."""
    if b + c == 0:
        return 1.0
    return min(1.0, 2 * float(stats.binom.cdf(min(b, c), b + c, 0.5)))


def mcnemar_mid_p(b: int, c: int) -> float:
    """Exact p value less half the probability of the table seen (Fagerland et al. 2013)."""
    if b == c:  # both tails meet in the middle
        return 1.0 if b == 0 else 1.0 - 0.5 * float(stats.binom.pmf(b, b + c, 0.5))
    return mcnemar_exact(b, c) - float(stats.binom.pmf(min(b, c), b + c, 0.5))


def e_value(b: int, c: int) -> float:
    """Evidence against fair flips, valid at any stopping time; reject at 1/alpha.

    e = 2^(b+c) B(b+1/2, c+1/2) / B(1/2, 1/2): a beta(1/2, 1/2) mixture against a fair coin.
    """
    log_e = (b + c) * np.log(2) + special.betaln(b + 0.5, c + 0.5) - special.betaln(0.5, 0.5)
    return float(np.exp(min(log_e, 700.0)))


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Holm-adjusted p values (family-wise error), in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Benjamini-Hochberg adjusted p values (false discovery rate), in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(-p, kind="stable")
    stepped = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
