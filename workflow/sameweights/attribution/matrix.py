"""The whole matrix at once: all pairs of cells, and all targets against one reference.

The same estimators as `inference.measure`, arranged so that the cost is a few matrix products:
the clustered covariance of all cells is computed once, and the variance of any contrast follows.
Every cost is linear in the number of items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sameweights.attribution import rules
from sameweights.attribution.capability import Capability
from sameweights.attribution.inference import Floats, Sampling, clustered_cov, t_critical
from sameweights.attribution.lattice import Lattice, Levels, Player, build_lattice
from sameweights.attribution.table import Codes

Counts = NDArray[np.int64]

BLOCK_ITEMS = 4096
TINY = 1e-12
"""Below this a contribution is the rounding error of one that is zero."""


@dataclass(frozen=True)
class PairTable:
    """All pairs of C cells; entry [i, j] compares cell i (before) with cell j (after).

    `delta`: score change, with `lo`, `hi` its 95% interval; `right_to_wrong`, items, its transpose
    is wrong-to-right; `mid_p`: McNemar; `churn`: items whose answer differs, with the half width of
    its interval in `churn_half` (proportion) around its `churn_centre`. n items.
    """

    delta: Floats
    lo: Floats
    hi: Floats
    right_to_wrong: Counts
    mid_p: Floats
    churn: Counts
    churn_centre: Floats
    churn_half: Floats
    n: int


def compare_all(right: Floats, codes: Codes, sampling: Sampling) -> PairTable:
    """Every pair of cells. right [C, n] 0/1, codes [C, n] answer codes, no item missing.

    Items must be in the order of `sampling` (its `order` is None), or ValueError.
    """
    _require_sorted(sampling)
    cells, n = right.shape
    single = right.astype(np.float32)
    lost = np.rint(single @ (1 - single).T).astype(np.int64)
    totals, cov = _totals_and_cov(right, sampling)
    spread = np.diag(cov)
    variance = np.maximum(spread[:, None] + spread[None, :] - 2 * cov, 0.0)
    mean = right.mean(axis=1)
    delta = mean[None, :] - mean[:, None]
    imaginary2 = np.full((cells, cells), 1.0 / n**2)  # a flip alone weighs one
    if sampling.starts is not None:
        imaginary2 = np.stack([_imaginary2(totals - row, n) for row in totals])
    half = _half_width(variance, imaginary2, sampling)
    churn, churn_half = _churn_of_pairs(codes, sampling)
    shrink = _shrink(sampling)
    return PairTable(
        delta=delta,
        lo=shrink * delta - half,
        hi=shrink * delta + half,
        right_to_wrong=lost,
        mid_p=mid_p_of(lost, lost.T),
        churn=churn,
        churn_centre=shrink * churn / n,
        churn_half=churn_half,
        n=n,
    )


def mid_p_of(b: Counts, c: Counts) -> Floats:
    """McNemar mid-p of arrays of flip counts; see `flips.mcnemar_mid_p`."""
    low, flips = np.minimum(b, c), b + c
    point = np.exp(
        special.gammaln(flips + 1)
        - special.gammaln(low + 1)
        - special.gammaln(flips - low + 1)
        - flips * np.log(2)
    )
    tail = special.bdtr(low, flips, 0.5)
    return np.where(flips == 0, 1.0, np.where(b == c, 1 - point / 2, 2 * tail - point))


def _require_sorted(sampling: Sampling) -> None:
    if sampling.order is not None:
        raise ValueError("items must be sorted by stratum and cluster")


def _totals_and_cov(x: Floats, sampling: Sampling) -> tuple[Floats, Floats]:
    """Cluster totals [k, G] of x [k, n] and clustered covariance of the means [k, k]."""
    totals = x if sampling.starts is None else np.add.reduceat(x, sampling.starts, axis=1)
    return totals, clustered_cov(x.T, totals.T, sampling) / sampling.n**2


def _imaginary2(totals: Floats, n: int) -> Floats:
    """Squared size [k] of the imaginary clusters: mean square of non-zero totals [k, G]."""
    nonzero = np.count_nonzero(totals, axis=1)
    squares = np.einsum("kg,kg->k", totals, totals)
    return np.where(nonzero > 0, squares / np.maximum(nonzero, 1), 1.0) / n**2


def _shrink(sampling: Sampling) -> float:
    return sampling.n_clusters / (sampling.n_clusters + 2)


def _half_width(variance: Floats, imaginary2: Floats, sampling: Sampling) -> Floats:
    critical = float(t_critical(np.array([sampling.df], dtype=np.float64))[0])
    return np.asarray(critical * _shrink(sampling) * np.sqrt(variance + 2 * imaginary2))


def _churn_of_pairs(codes: Codes, sampling: Sampling) -> tuple[Counts, Floats]:
    """Items whose answers differ [C, C], and half widths of the intervals of their shares."""
    if sampling.starts is None:
        counts = count_changes(codes, sampling.stratum_starts)
        sizes = np.diff(np.r_[sampling.stratum_starts, sampling.n])[:, None, None]
        # Alone, an item is 0 or 1: the variance of its stratum follows from the count.
        within = counts * (1 - counts / sizes) * sizes / np.maximum(sizes - 1, 1)
        variance = within.sum(axis=0) / sampling.n**2
        imaginary2 = np.full_like(variance, 1.0 / sampling.n**2)
        return counts.sum(axis=0), _half_width(variance, imaginary2, sampling)
    found = [_churn_of_clusters(codes != row, sampling) for row in codes]
    return np.stack([count for count, _ in found]), np.stack([half for _, half in found])


def _churn_of_clusters(moved: NDArray[np.bool_], sampling: Sampling) -> tuple[Counts, Floats]:
    totals, cov = _totals_and_cov(moved.astype(np.float64), sampling)
    half = _half_width(np.diag(cov), _imaginary2(totals, sampling.n), sampling)
    return np.count_nonzero(moved, axis=1), half


def count_changes(codes: Codes, stratum_starts: NDArray[np.int64]) -> Counts:
    """Items of each stratum whose codes differ [H, C, C], for every pair of cells.

    Blocks of items that fit the cache, in the smallest integers that hold the codes.
    """
    cells, n = codes.shape
    small = codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
    counts = np.zeros((len(stratum_starts), cells, cells), dtype=np.int64)
    stops = np.r_[stratum_starts[1:], n]
    for stratum, (start, stop) in enumerate(zip(stratum_starts, stops, strict=True)):
        for low in range(start, stop, BLOCK_ITEMS):
            block = np.ascontiguousarray(small[:, low : min(low + BLOCK_ITEMS, stop)])
            for i in range(cells - 1):
                counts[stratum, i, i + 1 :] += np.count_nonzero(block[i + 1 :] != block[i], axis=1)
    return counts + counts.transpose(0, 2, 1)


@dataclass(frozen=True)
class TargetSplit:
    """Headline and fair shares of one target against the reference, for one outcome.

    All [k], in the order of `terms`: estimate (NaN where not identified), interval, worst-case
    bounds and contributing items.
    """

    target: Levels
    terms: tuple[str, ...]
    estimate: Floats
    lo: Floats
    hi: Floats
    bounds: Floats
    contributing: Counts


def attribute_all(
    values: Floats,
    cells: Sequence[Levels],
    factors: Sequence[str],
    reference: Levels,
    sampling: Sampling,
    rule_set: Sequence[Capability] = (),
) -> list[TargetSplit]:
    """Split every other cell against one reference.

    values [C, n]: an outcome in [0, 1] per cell and item (score, or change against the reference).
    """
    _require_sorted(sampling)
    column = {levels: k for k, levels in enumerate(cells)}
    totals, cov = _totals_and_cov(values, sampling)
    means = values.mean(axis=1)
    splits = []
    for target in cells:
        if target != reference:
            lattice = build_lattice(factors, reference, target, cells, rule_set)
            splits.append(
                _split_target(lattice, target, column, values, totals, cov, means, sampling)
            )
    return splits


def _split_target(
    lattice: Lattice,
    target: Levels,
    column: Mapping[Levels, int],
    values: Floats,
    totals: Floats,
    cov: Floats,
    means: Floats,
    sampling: Sampling,
) -> TargetSplit:
    names, masks, weights = _weights(lattice.names, lattice.family, lattice.run)
    ran = np.array([mask in lattice.run for mask in masks])
    picked = [column[lattice.levels[mask]] for mask, run in zip(masks, ran, strict=True) if run]
    known, missing = weights[ran], weights[~ran]
    point = means[picked] @ known
    low, high = np.minimum(missing, 0).sum(axis=0), np.maximum(missing, 0).sum(axis=0)
    variance = np.einsum("ck,cd,dk->k", known, cov[np.ix_(picked, picked)], known)
    contributions = known.T @ totals[picked]
    contributions[np.abs(contributions) < TINY] = 0.0
    half = _half_width(np.maximum(variance, 0), _imaginary2(contributions, sampling.n), sampling)
    identified = ~missing.any(axis=0)
    centre = _shrink(sampling) * point
    items = contributions if sampling.starts is None else known.T @ values[picked]
    return TargetSplit(
        target=target,
        terms=names,
        estimate=np.where(identified, point, np.nan),
        lo=np.where(identified, centre - half, np.nan),
        hi=np.where(identified, centre + half, np.nan),
        bounds=np.stack([point + low, point + high]),
        contributing=np.count_nonzero(np.abs(items) > TINY, axis=1),
    )


@lru_cache(maxsize=4096)
def _weights(
    names: tuple[str, ...], family: tuple[int, ...], run: frozenset[int]
) -> tuple[tuple[str, ...], tuple[int, ...], Floats]:
    """Terms, corners and weights [corners, terms]; targets of one shape share them."""
    players = tuple(Player(name, (name,)) for name in names)
    shape = Lattice((), players, dict.fromkeys(family, ()), family, run)
    fair = {f"fair {name}": contrast for name, contrast in rules.fair_shares(shape).items()}
    terms = {"total": rules.total(shape), **rules.headline(shape), **fair}
    weights = np.array([[c.get(mask, 0.0) for c in terms.values()] for mask in family])
    return tuple(terms), family, weights
