"""Statistics of a pair of cells: one file each, found by name.

A file defines `METRICS`: what one item contributes, as SQL over a pair of replicates.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Literal

Kind = Literal["score", "share", "mean", "difference", "test"]


@dataclass(frozen=True)
class Metric:
    """One statistic: the mean over items of `sql`, itself averaged over pairs of replicates.

    `sql`: an expression over the rows `i` and `j` of one item in two runs (columns of
    measured_items); NULL where the item has nothing to say. `kind` chooses the interval: a share
    in 0..1, a mean that is never negative, a paired difference, the p value of a test on it, or a
    score (a share where values are 0 or 1, else a mean). `binary`: only where right is 1 and wrong
    is 0.
    """

    name: str
    sql: str
    kind: Kind
    binary: bool = False


@cache
def all_metrics() -> tuple[Metric, ...]:
    """Return the metrics of every file of this package, in order of file name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(metric for module in modules for metric in module.METRICS)
