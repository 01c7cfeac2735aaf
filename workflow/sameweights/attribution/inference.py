"""Intervals of means of item contributions: stratified, clustered, with two imaginary items.

Point estimates of a split are means of item contributions, so every interval is that of a mean:
the clustered paired SE of Miller (2024) with strata, a t quantile with clusters - strata degrees
of freedom, and two imaginary clusters at +-a that keep rare flips honest (for a plain paired
difference they are Bonett and Price, 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sameweights.attribution.results import Interval

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
ROUNDING = 1e-12
"""Contributions smaller than this, relative to the largest, are rounding errors of zero."""
MAX_Z_DRAWS = 1 << 14


@dataclass(frozen=True)
class Sampling:
    """How the items were drawn: strata (tasks) and clusters inside them, sorted once.

    `order` sorts items by stratum and cluster; `starts` and `stratum_starts` are the first
    positions of each cluster and stratum in that order; `cluster_stratum` [G].
    """

    n: int
    order: NDArray[np.int64] | None
    starts: NDArray[np.int64] | None
    stratum_starts: NDArray[np.int64]
    cluster_stratum: NDArray[np.int64]

    @property
    def n_clusters(self) -> int:
        return len(self.cluster_stratum)

    @property
    def n_strata(self) -> int:
        return len(self.stratum_starts)

    @property
    def df(self) -> int:
        """Clusters minus strata."""
        return self.n_clusters - self.n_strata


def plan_sampling(strata: NDArray[np.int64], clusters: NDArray[np.int64] | None) -> Sampling:
    """Sort items into strata and clusters; strata with a single cluster are pooled into one.

    strata [n]; clusters [n] or None (every item alone). A cluster number in two strata is two
    clusters.
    """
    n = len(strata)
    alone = np.arange(n) if clusters is None else clusters
    strata = _pool_single_clusters(strata, alone)
    order = np.lexsort((alone, strata))
    s, c = strata[order], alone[order]
    if n == 0:
        empty = np.zeros(0, dtype=np.int64)
        return Sampling(0, None, None, empty, empty)
    new_stratum = np.r_[True, s[1:] != s[:-1]]
    new_cluster = new_stratum | np.r_[True, c[1:] != c[:-1]]
    starts = np.flatnonzero(new_cluster)
    return Sampling(
        n=n,
        order=None if np.array_equal(order, np.arange(n)) else order,
        starts=None if len(starts) == n else starts,
        stratum_starts=np.flatnonzero(new_stratum),
        cluster_stratum=(np.cumsum(new_stratum) - 1)[starts],
    )


def _pool_single_clusters(
    strata: NDArray[np.int64], clusters: NDArray[np.int64]
) -> NDArray[np.int64]:
    # One cluster has no spread to measure: such strata share one.
    pairs = np.unique(np.stack([strata, clusters]), axis=1)[0]
    names, counts = np.unique(pairs, return_counts=True)
    single = names[counts == 1]
    if len(single) == 0:
        return strata
    if len(single) == 1 and len(names) > 1:  # nobody to share with: join the largest stratum
        single = np.r_[single, names[np.argmax(counts)]]
    return np.where(np.isin(strata, single), single[-1], strata)


@dataclass(frozen=True)
class Means:
    """Means of k contributions over n items and what their intervals need.

    `mean` [k]; `cov` [k, k] clustered covariance of the means; `imaginary` [k] size of the two
    imaginary clusters in units of the mean; `contributing` [k] items with a non-zero value;
    `df` [k] degrees of freedom, below 1 where no interval exists.
    """

    mean: Floats
    cov: Floats
    imaginary: Floats
    contributing: NDArray[np.int64]
    n: int
    n_clusters: int
    df: Floats

    @property
    def shrink(self) -> float:
        """Factor that the two imaginary clusters put on a centre."""
        return self.n_clusters / (self.n_clusters + 2)

    @property
    def se(self) -> Floats:
        """Corrected standard errors [k]."""
        return np.asarray(self.shrink * np.sqrt(np.diag(self.cov) + 2 * self.imaginary**2))

    def intervals(self, critical: float | None = None) -> list[Interval | None]:
        """Intervals of all means; None where fewer than 2 clusters in a stratum exist."""
        centre, se = self.shrink * self.mean, self.se
        half = se * (t_critical(self.df) if critical is None else critical)
        return [
            (float(c - h), float(c + h)) if df >= 1 else None
            for c, h, df in zip(centre, half, self.df, strict=True)
        ]


def p_values(means: Means) -> Floats:
    """Two-sided p values [k] that agree with the intervals; NaN where none exists."""
    t = np.abs(means.shrink * means.mean) / means.se
    return np.asarray(2 * special.stdtr(np.where(means.df >= 1, means.df, np.nan), -t))


def t_critical(df: Floats, confidence: float = CONFIDENCE) -> Floats:
    """Two-sided t quantiles [k]."""
    return np.asarray(special.stdtrit(df, (1 + confidence) / 2))


def measure(contributions: Floats, sampling: Sampling) -> Means:
    """Means of item contributions [n, k] with their clustered covariance. Linear in n.

    Var = sum over strata of G_h/(G_h-1) sum of squared cluster totals of stratum-centred
    contributions, over n^2. The imaginary clusters have the RMS of the non-zero cluster totals
    (one item's worth if there are none).
    """
    n = sampling.n
    x = contributions if sampling.order is None else contributions[sampling.order]
    # Thirds of ones do not cancel to exact zeros, and a zero must not count as a contribution.
    x = np.where(np.abs(x) > ROUNDING * np.abs(x).max(axis=0, initial=0.0), x, 0.0)
    totals = x if sampling.starts is None else np.add.reduceat(x, sampling.starts, axis=0)
    cov = clustered_cov(x, totals, sampling) / n**2
    contributing = np.count_nonzero(x, axis=0)
    nonzero = np.count_nonzero(totals, axis=0)
    squares = np.einsum("gk,gk->k", totals, totals)
    rms = np.where(nonzero > 0, np.sqrt(squares / np.maximum(nonzero, 1)), 1.0)
    df = np.full(x.shape[1], float(sampling.df))
    return Means(x.mean(axis=0), cov, rms / n, contributing, n, sampling.n_clusters, df)


def _sizes(starts: NDArray[np.int64], n: int) -> Floats:
    return np.asarray(np.diff(np.r_[starts, n]), dtype=np.float64)


def clustered_cov(x: Floats, totals: Floats, sampling: Sampling) -> Floats:
    """Covariance [k, k] of the sums of sorted contributions x [n, k], totals [G, k] per cluster.

    NaN where a stratum has no two clusters.
    """
    k = x.shape[1]
    if sampling.df < 1:
        return np.full((k, k), np.nan)
    stratum_items = _sizes(sampling.stratum_starts, sampling.n)
    means = np.add.reduceat(x, sampling.stratum_starts, axis=0) / stratum_items[:, None]
    clusters = np.bincount(sampling.cluster_stratum, minlength=sampling.n_strata)
    factor = np.sqrt(clusters / np.maximum(clusters - 1.0, 1.0))
    expected = means[sampling.cluster_stratum]
    if sampling.starts is not None:
        expected *= _sizes(sampling.starts, sampling.n)[:, None]
    residual = (totals - expected) * factor[sampling.cluster_stratum][:, None]
    return np.asarray(residual.T @ residual)


def max_z_critical(cov: Floats, df: float, confidence: float = CONFIDENCE) -> float:
    """Critical value of max |t| over all terms, for one interval statement about a whole split.

    Multivariate t with the terms' correlation, by a seeded draw; terms without variance are
    treated as independent, which is conservative.
    """
    if df < 1:
        return float("nan")
    sd = np.sqrt(np.diag(cov))
    scale = np.where(sd > 0, sd, 1.0)
    corr = cov / np.outer(scale, scale)
    corr[np.diag_indices_from(corr)] = 1.0
    values, vectors = np.linalg.eigh(corr)
    normal, chi = _draws(len(corr), df)
    z = normal @ (vectors * np.sqrt(np.clip(values, 0, None))).T
    largest = np.abs(z).max(axis=1) / chi
    alone = float(t_critical(np.array([df]), confidence)[0])
    return max(float(np.quantile(largest, confidence)), alone)


@lru_cache(maxsize=8)
def _draws(k: int, df: float) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(20240519)
    normal = rng.standard_normal((MAX_Z_DRAWS, k))
    return normal, np.sqrt(rng.chisquare(df, MAX_Z_DRAWS) / df)


def fieller(part: float, whole: float, cov: Floats, critical: float) -> Interval | None:
    """Fieller interval of part/whole; None when it is not a bounded interval.

    cov [2, 2] of (part, whole). Solves (part - r whole)^2 <= critical^2 Var(part - r whole).
    """
    t2 = critical**2
    a = whole**2 - t2 * cov[1, 1]
    b = part * whole - t2 * cov[0, 1]
    c = part**2 - t2 * cov[0, 0]
    if a <= 0:
        return None
    root = np.sqrt(max(b * b - a * c, 0.0))
    return float((b - root) / a), float((b + root) / a)


def clip(interval: Interval | None, limits: Interval) -> Interval | None:
    """The part of an interval that lies inside logical limits."""
    if interval is None:
        return None
    low, high = limits
    return min(max(interval[0], low), high), max(min(interval[1], high), low)


def wilson(count: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson interval of a proportion."""
    if n == 0:
        return 0.0, 1.0
    z = float(stats.norm.ppf((1 + confidence) / 2))
    p, z2 = count / n, z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(float(centre - half), 0.0), min(float(centre + half), 1.0)


def bonett_price(wrong_to_right: int, right_to_wrong: int, n: int) -> Interval:
    """Interval of a paired difference of proportions from flip counts alone (n + 2 items)."""
    z = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
    delta = (wrong_to_right - right_to_wrong) / (n + 2)
    flips = (wrong_to_right + right_to_wrong + 2) / (n + 2)
    half = z * float(np.sqrt((flips - delta**2) / (n + 2)))
    return delta - half, delta + half
