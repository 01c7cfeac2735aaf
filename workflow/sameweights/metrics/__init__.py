"""Statistics of a pair of runs: one file each, found by name.

A file defines `measure(pair: Pair) -> list[Statistic]`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from sameweights.attribution.inference import CONFIDENCE, plan_sampling, wilson
from sameweights.attribution.inference import measure as measure_means


@dataclass(frozen=True)
class Pair:
    """Aligned items of two runs under one metric a task, measured (`ok`) in both.

    Columns as in items.parquet, `_b` for the second run, and per item `logits`, `token_ids` and
    `margins` of its requests, and `mean_value` over its cell's replicates. `n_planned` counts items
    that failed in either run, too; `left_out` says how many had which status.
    """

    items: pl.DataFrame
    n_planned: int
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def strata(self) -> NDArray[np.int64]:
        """Number of each item's task [n]."""
        return self.items["task"].rank("dense").cast(pl.Int64).to_numpy() - 1


@dataclass(frozen=True)
class Statistic:
    """One number with its n and interval; None where nothing contributes."""

    name: str
    n: int
    estimate: float | None
    lo: float | None
    hi: float | None
    detail: Mapping[str, float] = field(default_factory=dict)


def proportion(name: str, hits: NDArray[np.bool_]) -> Statistic:
    """A share of items with Wilson's interval."""
    n = len(hits)
    if n == 0:
        return Statistic(name, 0, None, None, None)
    count = int(hits.sum())
    lo, hi = wilson(count, n)
    return Statistic(name, n, count / n, lo, hi)


def mean(name: str, values: NDArray[np.float64]) -> Statistic:
    """A mean of values that are never negative, with Student's t interval cut at 0.

    No interval where all values are equal: no spread was seen, which is not certainty.
    """
    n = len(values)
    if n == 0:
        return Statistic(name, 0, None, None, None)
    estimate, spread = float(values.mean()), float(values.std(ddof=1)) if n > 1 else 0.0
    if spread == 0.0:
        return Statistic(name, n, estimate, None, None)
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1)) * spread / n**0.5
    return Statistic(name, n, estimate, max(0.0, estimate - half), estimate + half)


def difference(name: str, values: NDArray[np.float64], strata: NDArray[np.int64]) -> Statistic:
    """A mean of paired differences with the stratified t interval (two imaginary items)."""
    n = len(values)
    if n == 0:
        return Statistic(name, 0, None, None, None)
    estimate = float(values.mean())
    if n <= len(np.unique(strata)) + 1:
        return Statistic(name, n, estimate, None, None)
    means = measure_means(values[:, None], plan_sampling(strata, None))
    lo, hi = means.intervals()[0] or (None, None)
    return Statistic(name, n, estimate, lo, hi)


def measure_all(pair: Pair) -> list[Statistic]:
    """Run every metric file of this package, in order of name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [statistic for module in modules for statistic in module.measure(pair)]
