"""Intervals of means from their moments: counts and sums, added up wherever the rows lie.

All arguments are arrays [k], one entry a number; results are NaN where no interval exists.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sameweights.attribution.inference import CONFIDENCE, t_critical

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats]

TAIL = 0.5 + CONFIDENCE / 2


def share(n: Floats, total: Floats) -> Interval:
    """Wilson's interval of total / n; shares inside one item only make it too wide."""
    z = float(stats.norm.ppf(TAIL))
    with np.errstate(invalid="ignore", divide="ignore"):
        p = total / n
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(np.clip(p * (1 - p), 0, None) / n + z * z / (4 * n * n))
        half /= 1 + z * z / n
    return np.clip(centre - half, 0, None), np.clip(centre + half, None, 1)


def mean(n: Floats, total: Floats, squares: Floats) -> Interval:
    """Student's t interval of values that are never negative, cut at 0.

    None where all values are equal: no spread was seen, which is not certainty.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = squares - total**2 / n
        spread = np.where(spread > 1e-12 * squares, spread, np.nan)
        half = t_critical(n - 1) * np.sqrt(spread / (n - 1) / n)
        centre = total / n
    return np.clip(centre - half, 0, None), centre + half


def difference(
    n: Floats, total: Floats, within: Floats, squares: Floats, nonzero: Floats, df: Floats
) -> Interval:
    """Stratified t interval of a paired difference with two imaginary items.

    `within`: sum over strata of n_h / (n_h - 1) times the squares about the stratum's mean. The
    imaginary items have the root mean square of the non-zero differences, or 1 where all are 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        shrink = n / (n + 2)
        rms = np.where(nonzero > 0, np.sqrt(squares / np.maximum(nonzero, 1)), 1.0)
        se = shrink * np.sqrt(np.clip(within, 0, None) + 2 * rms**2) / n
        half = np.where(df >= 1, t_critical(np.where(df >= 1, df, np.nan)) * se, np.nan)
        centre = shrink * total / n
    return centre - half, centre + half


def mcnemar_mid_p(lost: Floats, won: Floats) -> Floats:
    """Exact two-sided p value of flips as fair coins, less half the probability of the table."""
    flips, fewer = lost + won, np.minimum(lost, won)
    at = np.exp(
        special.gammaln(flips + 1)
        - special.gammaln(fewer + 1)
        - special.gammaln(flips - fewer + 1)
        - flips * np.log(2)
    )
    below = 2 * special.bdtr(fewer, flips.astype(np.int64), 0.5) - at
    return np.where(flips == 0, 1.0, np.where(lost == won, 1.0 - 0.5 * at, below))
