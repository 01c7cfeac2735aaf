"""The aligned item table: every run of every cell on the same items, as arrays.

It is the only input of the attribution, whatever it was read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.lattice import Levels
from sameweights.errors import UserError

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
ItemKey = tuple[str, int, str]
SeedRole = Literal["replicate", "fewshot", "sampling"]

CHURN_LEVELS = ("extracted", "text", "tokens")
MISSING_CODE = -1
DEFAULT_FACTORS = ("device", "backend", "precision")


class TableError(UserError):
    """The item table is not rectangular, not unique, or lacks what was asked for."""


@dataclass(frozen=True)
class Run:
    """One run of one cell. `levels`: a level per factor of the table."""

    levels: Levels
    replicate: int = 0
    seed: int = 0

    @property
    def cell(self) -> str:
        return "/".join(self.levels)


@dataclass(frozen=True)
class ItemTable:
    """R runs of cells on the same n items.

    `values` [R, n]: the metric; NaN where an item has no score (never 0). `codes`: per churn level
    (extracted, text, tokens) an int array [R, n], equal codes = equal answers, -1 = no answer.
    `strata` [n]: task of each item; `clusters` [n]: items with equal numbers vary together
    (same document), None = every item alone. `value_range`: what a value can be, for bounds.
    `extras`: further per-item quantities [R, n], e.g. "kld" (nats, against the reference named
    in the traces) and "top1_flips". `flags`: "tie" and "extraction_only", bool [R, n].
    `seeds` says what a seed varies: "replicate" (nothing but noise), "fewshot" (the prompts, shared
    by all items: crossed), "sampling" (the draws). `cost_s`: device seconds per cell, if known.
    `others`: cells of the same source that the split does not need, without their rows, and
    whether they have a scored item.
    Raises TableError.
    """

    factors: tuple[str, ...]
    runs: tuple[Run, ...]
    keys: tuple[ItemKey, ...]
    values: Floats
    codes: Mapping[str, Codes]
    strata: NDArray[np.int64]
    clusters: NDArray[np.int64] | None = None
    value_range: tuple[float, float] = (0.0, 1.0)
    metric: str = "score"
    filter: str = "none"
    extras: Mapping[str, Floats] = field(default_factory=dict)
    flags: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    seeds: SeedRole = "replicate"
    cost_s: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    others: Mapping[Levels, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = (len(self.runs), len(self.keys))
        arrays: dict[str, NDArray[Any]] = {
            "values": self.values,
            **self.codes,
            **self.extras,
            **self.flags,
        }
        for name, array in arrays.items():
            if array.shape != shape:
                raise TableError(f"{name}: shape {array.shape}; runs x items is {shape}")
        if self.strata.shape != shape[1:]:
            raise TableError(f"strata: shape {self.strata.shape}; items are {shape[1]}")
        if len(set(self.keys)) != len(self.keys):
            raise TableError("items: keys (task, doc_id, filter) are not unique")
        seen: set[Run] = set()
        for run in self.runs:
            if len(run.levels) != len(self.factors):
                raise TableError(f"run {run.cell!r}: needs a level for each of {self.factors}")
            if run in seen:
                raise TableError(f"run {run.cell!r} seed {run.seed} #{run.replicate}: given twice")
            seen.add(run)

    @cached_property
    def cells(self) -> dict[Levels, list[int]]:
        """Row numbers of the runs of each cell that has at least one scored item."""
        cells: dict[Levels, list[int]] = {}
        for row, run in enumerate(self.runs):
            if np.isfinite(self.values[row]).any():
                cells.setdefault(run.levels, []).append(row)
        return cells

    @property
    def churn_level(self) -> str | None:
        """The level that "churn" means when none is stated: the extracted answer if known."""
        return next((level for level in CHURN_LEVELS if level in self.codes), None)

    def find(self, label: str) -> Levels:
        """Levels of a cell from its label "device/backend/precision"; raises TableError."""
        levels = tuple(label.split("/"))
        known = sorted({run.cell for run in self.runs})
        if label in known:
            return levels
        raise TableError(f"cell {label!r}: not in the table; cells: {known}")

    def take(self, items: NDArray[np.bool_] | NDArray[np.int64]) -> ItemTable:
        """The same table on some of its items."""
        kept = np.arange(len(self.keys))[items]
        return replace(
            self,
            keys=tuple(self.keys[k] for k in kept),
            values=self.values[:, kept],
            codes={level: codes[:, kept] for level, codes in self.codes.items()},
            strata=self.strata[kept],
            clusters=None if self.clusters is None else self.clusters[kept],
            extras={name: extra[:, kept] for name, extra in self.extras.items()},
            flags={name: flag[:, kept] for name, flag in self.flags.items()},
        )

    def take_runs(self, rows: Sequence[int]) -> ItemTable:
        """The same table on some of its runs."""
        picked = list(rows)
        return replace(
            self,
            runs=tuple(self.runs[row] for row in picked),
            values=self.values[picked],
            codes={level: codes[picked] for level, codes in self.codes.items()},
            extras={name: extra[picked] for name, extra in self.extras.items()},
            flags={name: flag[picked] for name, flag in self.flags.items()},
        )

    def with_replicate_factor(self) -> ItemTable:
        """Make the replicate number a factor, to compare a cell with itself."""
        runs = tuple(Run((*r.levels, f"#{r.replicate}"), 0, r.seed) for r in self.runs)
        return replace(self, factors=(*self.factors, "replicate"), runs=runs)


def encode(answers: Sequence[Any]) -> Codes:
    """Integer codes of hashable answers, equal for equal answers; None is MISSING_CODE."""
    known: dict[Any, int] = {}
    codes = [MISSING_CODE if a is None else known.setdefault(a, len(known)) for a in answers]
    return np.asarray(codes, dtype=np.int32)


def number_clusters(
    tasks: Sequence[str], clusters: Sequence[str | None]
) -> NDArray[np.int64] | None:
    """Cluster numbers [n] of items; None stands alone, equal names in two tasks are two clusters.

    None when no item names a cluster.
    """
    if not any(name is not None for name in clusters):
        return None
    known: dict[tuple[Any, ...], int] = {}
    names = zip(tasks, clusters, range(len(tasks)), strict=True)
    keys = [(task, name) if name is not None else (task, None, k) for task, name, k in names]
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def parse_label(label: str) -> tuple[Levels, int]:
    """Split "device/backend/precision#2" into levels and replicate number; raises TableError."""
    name, _, replicate = label.partition("#")
    levels = tuple(name.split("/"))
    if not all(levels) or (replicate and not replicate.isdigit()):
        raise TableError(f"cell label {label!r}: expected 'device/backend/precision[#replicate]'")
    return levels, int(replicate or 0)


def table_from_long(
    rows: Iterable[tuple[str, str, str | None, float | None]],
    factors: Sequence[str] = DEFAULT_FACTORS,
    task: str = "items",
) -> ItemTable:
    """Item table from rows (cell label, item, answer, correct); None = missing.

    Raises TableError when a label is malformed, a row is repeated, or the item sets of the runs
    differ (it says which): a missing row is never a smaller n.
    """
    by_run: dict[Run, dict[str, tuple[str | None, float | None]]] = {}
    for label, item, answer, correct in rows:
        levels, replicate = parse_label(label)
        items = by_run.setdefault(Run(levels, replicate), {})
        if item in items:
            raise TableError(f"cell {label!r}: item {item!r} appears twice")
        items[item] = (answer, correct)
    if not by_run:
        raise TableError("no rows")
    names = list(next(iter(by_run.values())))
    for run, items in by_run.items():
        if differing := set(names) ^ set(items):
            example = sorted(differing)[0]
            raise TableError(f"cell {run.cell!r}: {len(differing)} items differ, e.g. {example!r}")
    table = [[items[name] for name in names] for items in by_run.values()]
    shape = (len(by_run), len(names))
    values = [np.nan if score is None else score for row in table for _, score in row]
    codes = encode([answer for row in table for answer, _ in row])
    return ItemTable(
        factors=tuple(factors),
        runs=tuple(by_run),
        keys=tuple((task, k, name) for k, name in enumerate(names)),
        values=np.asarray(values, dtype=np.float64).reshape(shape),
        codes={"extracted": codes.reshape(shape)},
        strata=np.zeros(len(names), dtype=np.int64),
    )
