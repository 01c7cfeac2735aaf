"""The comparability gate: runs are aligned item by item, or refused with the reason.

Disjoint, short, repeated or mismatched item sets are an error that says which; never a smaller n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sameweights.attribution.table import (
    CHURN_LEVELS,
    Codes,
    Floats,
    ItemKey,
    ItemTable,
    Run,
    TableError,
    encode,
    number_clusters,
)

METRIC_ORDER = ("exact_match", "acc", "acc_norm")
"""Preferred when a task has several metrics and none was asked for."""


@dataclass(frozen=True)
class ItemRow:
    """One item of one run under one filter, before alignment.

    `metrics`: numeric values by name. `answers`: a hashable answer per churn level. `error`: why
    the item has no valid result; then it is never scored, whatever the file says. `cluster`: name
    of what the item shares with others (a passage); None = it stands alone.
    """

    task: str
    doc_id: int
    filter: str
    metrics: Mapping[str, float]
    answers: Mapping[str, object]
    doc_hash: str
    prompt_hash: str
    tie: bool = False
    extraction_only: bool = False
    error: str | None = None
    cluster: str | None = None

    @property
    def key(self) -> ItemKey:
        return self.task, self.doc_id, self.filter


@dataclass(frozen=True)
class RunRows:
    """All rows of one run. `source` is the file or folder to name in errors."""

    run: Run
    source: str
    rows: Mapping[ItemKey, ItemRow]
    notes: tuple[str, ...] = field(default_factory=tuple)


def check_comparable(runs: Sequence[RunRows]) -> None:
    """Raise TableError unless all runs have the same items with equal doc and prompt hashes."""
    first = runs[0]
    for other in runs[1:]:
        _check_keys(first, other)
        for name in ("doc_hash", "prompt_hash"):
            _check_hash(first, other, name)


def _check_keys(a: RunRows, b: RunRows) -> None:
    for have, lack in ((a, b), (b, a)):
        if only := sorted(set(have.rows) - set(lack.rows)):
            shared = len(set(a.rows) & set(b.rows))
            raise TableError(
                f"not comparable: {len(only)} items of {have.source} are not in {lack.source} "
                f"({shared} are in both), e.g. task {only[0][0]!r} doc {only[0][1]} "
                f"filter {only[0][2]!r}"
            )


def _check_hash(a: RunRows, b: RunRows, name: str) -> None:
    differ = [k for k in sorted(a.rows) if getattr(a.rows[k], name) != getattr(b.rows[k], name)]
    if differ:
        task, doc_id, _ = differ[0]
        left, right = getattr(a.rows[differ[0]], name), getattr(b.rows[differ[0]], name)
        raise TableError(
            f"not comparable: {name} differs on {len(differ)} of {len(a.rows)} items between "
            f"{a.source} and {b.source}, e.g. task {task!r} doc {doc_id}: {left[:12]} and "
            f"{right[:12]}"
        )


def build_tables(
    runs: Sequence[RunRows],
    factors: Sequence[str],
    metric: str | None = None,
    filter_name: str | None = None,
) -> list[ItemTable]:
    """One aligned table per filter: the same items under two filters are not twice the items.

    A task with one filter takes part in every table. `metric` and `filter_name` narrow it down.
    Raises TableError for runs that are not comparable, and for unknown names.
    """
    check_comparable(runs)
    views = filter_views(_filters_of(runs[0]), filter_name)
    tasks = sorted({task for task, _, _ in runs[0].rows})
    metric_of = {task: choose_metric(task, _common_metrics(runs, task), metric) for task in tasks}
    return [_build_table(runs, factors, name, view, metric_of) for name, view in views.items()]


def filter_views(
    filters: Mapping[str, Sequence[str]], wanted: str | None
) -> dict[str, dict[str, str]]:
    """Per table to build: its name, and the filter of each task.

    `filters`: names per task. Tasks with several filters give one table per filter.
    """
    several = list(dict.fromkeys(n for names in filters.values() if len(names) > 1 for n in names))
    known = sorted({name for names in filters.values() for name in names})
    if wanted is not None and wanted not in known:
        raise TableError(f"filter {wanted!r}: allowed {known}")
    names = [wanted] if wanted else several or ["+".join(known)]
    return {
        name: {task: name if name in have else have[0] for task, have in filters.items()}
        for name in names
    }


def choose_metric(task: str, names: Sequence[str], wanted: str | None) -> str:
    """The wanted metric of a task, or the usual one; raises TableError."""
    if wanted is not None and wanted not in names:
        raise TableError(f"metric {wanted!r}: task {task!r} has {sorted(names)} as numbers")
    if not names:
        raise TableError(f"task {task!r}: no metric is a number per item in every run")
    preferred = [wanted] if wanted else [m for m in METRIC_ORDER if m in names]
    return preferred[0] if preferred else names[0]


def _filters_of(run: RunRows) -> dict[str, list[str]]:
    filters: dict[str, list[str]] = {}
    for task, _, name in run.rows:
        if name not in filters.setdefault(task, []):
            filters[task].append(name)
    return filters


def _common_metrics(runs: Sequence[RunRows], task: str) -> list[str]:
    """Metrics of a task that are a number in every run, in the order of the first."""
    per_run = [
        dict.fromkeys(m for row in run.rows.values() if row.task == task for m in row.metrics)
        for run in runs
    ]
    return [name for name in per_run[0] if all(name in names for names in per_run)]


def _build_table(
    runs: Sequence[RunRows],
    factors: Sequence[str],
    name: str,
    filter_of: Mapping[str, str],
    metric_of: Mapping[str, str],
) -> ItemTable:
    keys = tuple(key for key in sorted(runs[0].rows) if filter_of[key[0]] == key[2])
    rows = [[run.rows[key] for key in keys] for run in runs]
    values = np.array([[_value(row, metric_of[row.task]) for row in line] for line in rows])
    tasks = list(metric_of)
    finite = values[np.isfinite(values)]
    unit = finite.size == 0 or bool(((finite >= 0) & (finite <= 1)).all())
    flags = {
        "tie": np.array([[row.tie for row in line] for line in rows]),
        "extraction_only": np.array([[row.extraction_only for row in line] for line in rows]),
    }
    return ItemTable(
        factors=tuple(factors),
        runs=tuple(run.run for run in runs),
        keys=keys,
        values=values,
        codes=_codes(rows),
        strata=np.array([tasks.index(key[0]) for key in keys], dtype=np.int64),
        clusters=number_clusters([row.task for row in rows[0]], [row.cluster for row in rows[0]]),
        value_range=(0.0, 1.0) if unit else (-np.inf, np.inf),
        metric="+".join(dict.fromkeys(metric_of.values())),
        filter=name,
        flags=flags,
        notes=_notes(runs, rows, values),
    )


def _value(row: ItemRow, metric: str) -> float:
    return np.nan if row.error is not None else row.metrics.get(metric, np.nan)


def _codes(rows: Sequence[Sequence[ItemRow]]) -> dict[str, Codes]:
    shape = len(rows), len(rows[0])
    flat = [row for line in rows for row in line]
    codes = {level: encode([row.answers.get(level) for row in flat]) for level in CHURN_LEVELS}
    return {level: c.reshape(shape) for level, c in codes.items() if (c >= 0).any()}


def _notes(
    runs: Sequence[RunRows], rows: Sequence[Sequence[ItemRow]], values: Floats
) -> tuple[str, ...]:
    notes = [note for run in runs for note in run.notes]
    for run, line, scores in zip(runs, rows, values, strict=True):
        broken = [row for row, score in zip(line, scores, strict=True) if np.isnan(score)]
        if broken:
            notes.append(
                f"{run.source}: {len(broken)} of {len(line)} items are errors and not scored, e.g. "
                f"task {broken[0].task!r} doc {broken[0].doc_id}: {broken[0].error or 'no number'}"
            )
        if ties := sum(row.tie for row in line):
            notes.append(f"{run.source}: {ties} items are exact ties between their best choices")
        if lost := sum(row.extraction_only for row in line):
            notes.append(
                f"{run.source}: {lost} wrong items hold the right answer, the filter lost it"
            )
    return tuple(dict.fromkeys(notes))
