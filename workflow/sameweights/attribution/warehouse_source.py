"""The aligned item table out of the warehouse: the only file here that knows its columns.

Table `items`, one row per (cell, replicate, task, doc_id, filter, metric); only status 'ok' is
scored. See COLUMNS for what is read; a column `cluster` (items of one passage) is used if present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.align import choose_metric, filter_views
from sameweights.attribution.extraction import holds_answer
from sameweights.attribution.lattice import Levels
from sameweights.attribution.table import (
    CHURN_LEVELS,
    ItemTable,
    Run,
    SeedRole,
    TableError,
    number_clusters,
)
from sameweights.attribution.warehouse_runs import (
    RunFacts,
    between,
    comparable,
    needed_cells,
    survey,
)
from sameweights.reading import open_warehouse

Columns = Mapping[str, NDArray[Any]]

FACTORS = ("model", "device", "backend", "precision")
RUN_COLUMNS = (*FACTORS, "seed", "replicate")
COLUMNS = (
    *RUN_COLUMNS,
    *("task", "doc_id", "filter", "metric", "value", "status", "is_tie", "target", "margin"),
    *(f"answer_{level}" for level in CHURN_LEVELS),
    *("doc_hash", "prompt_hash", "request_ids"),
)
MUST_EQUAL = ("doc_hash", "prompt_hash", "request_ids")

_READ = """
SELECT {runs}, task, doc_id, doc_hash, prompt_hash, hash(request_ids) AS request_ids,
       CASE WHEN status = 'ok' THEN value END AS value, coalesce(is_tie, false) AS tie, {codes},
       CASE WHEN status = 'ok' AND value = 0 AND margin IS NULL THEN answer_text END AS wrong_text,
       target, {cluster} AS cluster
FROM items JOIN (SELECT unnest(?) AS task, unnest(?) AS filter, unnest(?) AS metric) AS wanted
USING (task, filter, metric)
WHERE concat_ws('/', model, device, backend, precision) IN (SELECT unnest(?))
ORDER BY {runs}, task, doc_id
"""
_CODE = (
    "CASE WHEN answer_{0} IS NULL THEN 0 ELSE dense_rank() OVER (ORDER BY answer_{0}) END AS {0}"
)


@dataclass(frozen=True)
class Comparison:
    """An item table with the two cell labels in its own spelling."""

    table: ItemTable
    reference: str
    target: str


def read_comparisons(
    path: Path,
    reference: str,
    target: str,
    metric: str | None = None,
    filter_name: str | None = None,
    sampled: bool = False,
    primary: bool = False,
) -> list[Comparison]:
    """One comparison per filter, from a warehouse file opened read-only.

    `primary`: the one comparison of each task's primary filter and metric, as on the report.
    Cells are "model/device/backend/precision", or "device/backend/precision" where one model was
    run; "/sSEED" keeps that seed alone. `sampled`: seeds vary the draws. Raises TableError.
    """
    if not path.is_file():
        raise TableError(f"{path}: no such warehouse; run the workflow first, or use --samples")
    with open_warehouse(path) as db:
        _check_columns(db, path)
        ends, seed = _find_ends(db, (reference, target))
        models = sorted({levels[0] for levels in ends})
        views = _primary_view(db) if primary else _views(db, models, metric, filter_name)
        tables = [
            _read_view(db, path, name, view, ends, seed, sampled) for name, view in views.items()
        ]
        costs = _device_costs_s(db, ends)
    labels = "/".join(ends[0]), "/".join(ends[1])
    return [Comparison(replace(table, cost_s=costs), *labels) for table in tables]


def _device_costs_s(db: duckdb.DuckDBPyConnection, ends: tuple[Levels, Levels]) -> dict[str, float]:
    """Expected device seconds of every corner: the mean run on the same device so far."""
    if not db.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'runs'").fetchall():
        return {}
    rows = db.execute(
        "SELECT split_part(cell, '/', 2), avg(TRY_CAST(timing->>'$.run_s' AS DOUBLE)) FROM runs "
        "WHERE outcome = 'complete' GROUP BY ALL"
    ).fetchall()
    known = {str(device): float(mean_s) for device, mean_s in rows if mean_s is not None}
    corners = product(*(dict.fromkeys(pair) for pair in zip(*ends, strict=True)))
    return {"/".join(cell): known[cell[1]] for cell in corners if cell[1] in known}


def _check_columns(db: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        found = _columns(db)
    except duckdb.CatalogException:
        raise TableError(f"{path}: has no table 'items'") from None
    if missing := [name for name in COLUMNS if name not in found]:
        raise TableError(f"{path}: table 'items' lacks {missing}; found {sorted(found)}")


def _columns(db: duckdb.DuckDBPyConnection) -> set[str]:
    return {row[0] for row in db.execute("DESCRIBE items").fetchall()}


def _find_ends(
    db: duckdb.DuckDBPyConnection, labels: tuple[str, str]
) -> tuple[tuple[Levels, Levels], int | None]:
    """Levels of both cells, and the seed that a label names."""
    rows = db.execute(f"SELECT DISTINCT {', '.join(FACTORS)} FROM items").fetchall()  # noqa: S608
    known: list[Levels] = sorted(tuple(map(str, row)) for row in rows)
    found, seeds = [], set()
    for label in labels:
        parts = label.split("/")
        if len(parts) > 3 and parts[-1][:1] == "s" and parts[-1][1:].isdigit():
            seeds.add(int(parts.pop()[1:]))
        matches = [cell for cell in known if list(cell[-len(parts) :]) == parts]
        if len(matches) != 1 or len(parts) < len(FACTORS) - 1:
            cells = ["/".join(cell) for cell in matches or known]
            problem = "is not in the warehouse" if not matches else "is more than one cell"
            raise TableError(f"cell {label!r} {problem}; cells: {cells}")
        found.append(matches[0])
    if len(seeds) > 1:
        raise TableError(f"{labels}: different seeds ask different prompts; name one seed or none")
    return (found[0], found[1]), next(iter(seeds), None)


def _views(
    db: duckdb.DuckDBPyConnection, models: list[str], metric: str | None, filter_name: str | None
) -> dict[str, list[tuple[str, str, str]]]:
    """Per table: name and its (task, filter, metric) triples."""
    rows = db.execute(
        "SELECT DISTINCT task, filter, metric FROM items WHERE model IN (SELECT unnest(?)) "
        "ORDER BY ALL",
        [models],
    ).fetchall()
    have: dict[str, dict[str, list[str]]] = {}
    for task, name, measured in rows:
        have.setdefault(task, {}).setdefault(name, []).append(measured)
    views = filter_views({task: list(names) for task, names in have.items()}, filter_name)
    return {
        view: [
            (task, name, choose_metric(task, have[task][name], metric))
            for task, name in chosen.items()
        ]
        for view, chosen in views.items()
    }


def _primary_view(db: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[str, str, str]]]:
    rows = db.execute("SELECT task, filter, metric FROM primary_metrics ORDER BY task").fetchall()
    return {"+".join(sorted({name for _, name, _ in rows})): rows}


def _read_view(
    db: duckdb.DuckDBPyConnection,
    path: Path,
    name: str,
    view: Sequence[tuple[str, str, str]],
    ends: tuple[Levels, Levels],
    seed: int | None,
    sampled: bool,
) -> ItemTable:
    facts = survey(db, view, sorted({levels[0] for levels in ends}), seed)
    needed = needed_cells(facts, ends)
    runs, _ = align_runs(_read_runs(db, view, needed, seed), ends, str(path))
    alike = comparable(facts, ends[0])
    notes = _left_out(db, view, facts, alike, ends, str(path))
    table = _assemble(runs, {task: name for task, name, _ in view}, sampled, alike)
    unread = [found for found in alike if found.run.levels not in needed]
    scored = {found.run.levels for found in unread if found.low is not None}
    others = {found.run.levels: found.run.levels in scored for found in unread}
    return replace(
        table,
        filter=name,
        metric="+".join(dict.fromkeys(metric for _, _, metric in view)),
        notes=(*table.notes, *notes),
        others=others,
    )


def _read_runs(
    db: duckdb.DuckDBPyConnection,
    view: Sequence[tuple[str, str, str]],
    cells: Iterable[Levels],
    seed: int | None,
) -> list[tuple[Run, Columns]]:
    """All rows of some cells, run by run."""
    query = _READ.format(
        runs=", ".join(RUN_COLUMNS),
        codes=", ".join(_CODE.format(level) for level in CHURN_LEVELS),
        cluster="cluster" if "cluster" in _columns(db) else "CAST(NULL AS VARCHAR)",
    )
    tasks, filters, metrics = (list(column) for column in zip(*view, strict=True))
    labels = ["/".join(cell) for cell in cells]
    columns = db.execute(query, [tasks, filters, metrics, labels]).fetchnumpy()
    plain = {key: _plain(column) for key, column in columns.items()}
    return _split_runs(plain, seed)


def _left_out(
    db: duckdb.DuckDBPyConnection,
    view: Sequence[tuple[str, str, str]],
    facts: Sequence[RunFacts],
    alike: Sequence[RunFacts],
    ends: tuple[Levels, Levels],
    source: str,
) -> list[str]:
    """Why runs have no part in the split; those that differ are read one cell at a time."""
    fine = {found.run for found in alike}
    reasons: dict[Run, list[str]] = {}
    others = dict.fromkeys(found.run.levels for found in facts if found.run not in fine)
    if not others:
        return []
    reference = _read_runs(db, view, [ends[0]], None)
    for cell in others:
        for block in _read_runs(db, view, [cell], None):
            _, reasons[block[0]] = align_runs([*reference, block], ends, source)
    return [note for found in facts for note in reasons.get(found.run, ())]


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """A masked column as a plain one: NaN for numbers, None for text, False for flags."""
    if not isinstance(column, np.ma.MaskedArray):
        return column
    plain = column.data.copy()
    plain[np.ma.getmaskarray(column)] = {"f": np.nan, "O": None}.get(column.dtype.kind, 0)
    return plain


def _split_runs(columns: Columns, seed: int | None) -> list[tuple[Run, Columns]]:
    """Cut the ordered columns where the run changes."""
    n = len(columns["task"])
    changes = np.zeros(n, dtype=np.bool_)
    changes[:1] = True
    for name in RUN_COLUMNS:
        changes[1:] |= columns[name][1:] != columns[name][:-1]
    starts = [*np.flatnonzero(changes).tolist(), n]
    runs: list[tuple[Run, Columns]] = []
    for start, stop in pairwise(starts):
        block: Columns = {name: column[start:stop] for name, column in columns.items()}
        levels = tuple(str(block[name][0]) for name in FACTORS)
        run = Run(levels, int(block["replicate"][0]), int(block["seed"][0]))
        if seed is None or run.seed == seed:
            runs.append((run, block))
    return runs


def align_runs(
    runs: Sequence[tuple[Run, Columns]], ends: tuple[Levels, Levels], source: str
) -> tuple[list[tuple[Run, Columns]], list[str]]:
    """The comparability gate. Cells between the two ends must pass it; others are left out.

    Raises TableError when items are missing, repeated or differ by document, prompt or request ids
    (compared per seed: few-shot seeds ask different prompts).
    """
    first: dict[int, Columns] = {}
    for run, block in runs:
        if run.levels == ends[0]:
            first.setdefault(run.seed, block)
    kept, notes = [], []
    for run, block in runs:
        if run.seed not in first:
            notes.append(f"{run.cell} seed {run.seed}: left out, the reference lacks this seed")
            continue
        problem = _mismatch(first[run.seed], block)
        if problem is None:
            kept.append((run, block))
            continue
        text = f"{run.cell} s{run.seed} #{run.replicate}: {problem}"
        if between(ends, run.levels):
            raise TableError(f"{source}: not comparable with the reference: {text}")
        notes.append(f"left out, not comparable: {text}")
    return kept, notes


def _mismatch(a: Columns, b: Columns) -> str | None:
    """Why two runs of one seed are not the same items, or None."""
    keys_a, keys_b = _keys(a), _keys(b)
    if keys_a != keys_b:
        counts = Counter(keys_a), Counter(keys_b)
        differing = sorted((counts[0] - counts[1]) | (counts[1] - counts[0]))
        return f"{len(differing)} items missing or repeated, e.g. {differing[0]}"
    for name in MUST_EQUAL:
        differ = np.flatnonzero(a[name] != b[name])
        if len(differ):
            return (
                f"{name} differs on {len(differ)} of {len(keys_a)} items, e.g. {keys_a[differ[0]]}"
            )
    return None


def _keys(block: Columns) -> list[tuple[str, int]]:
    return list(zip(block["task"].tolist(), block["doc_id"].tolist(), strict=True))


def _assemble(
    runs: Sequence[tuple[Run, Columns]],
    filter_of: Mapping[str, str],
    sampled: bool,
    alike: Sequence[RunFacts],
) -> ItemTable:
    keys = _keys(runs[0][1])
    if len(set(keys)) != len(keys):
        raise TableError("the reference has the same item twice")
    tasks = list(filter_of)
    values = np.stack([block["value"] for _, block in runs]).astype(np.float64)
    ranges = [(f.low, f.high) for f in alike if f.low is not None and f.high is not None]
    unit = all(low >= 0 and high <= 1 for low, high in ranges)
    known = frozenset[str]().union(*(f.levels for f in alike))
    codes = {
        level: np.stack([block[level] for _, block in runs]).astype(np.int32) - 1
        for level in CHURN_LEVELS
    }
    return ItemTable(
        factors=FACTORS,
        runs=tuple(run for run, _ in runs),
        keys=tuple((task, doc_id, filter_of[task]) for task, doc_id in keys),
        values=values,
        codes={level: code for level, code in codes.items() if level in known},
        strata=np.array([tasks.index(task) for task, _ in keys], dtype=np.int64),
        clusters=number_clusters([task for task, _ in keys], runs[0][1]["cluster"].tolist()),
        value_range=(0.0, 1.0) if unit else (-np.inf, np.inf),
        flags={
            "tie": np.stack([block["tie"] for _, block in runs]).astype(np.bool_),
            "extraction_only": np.stack([_lost_by_filter(block) for _, block in runs]),
        },
        seeds=_seed_role(runs, sampled),
    )


def _lost_by_filter(block: Columns) -> NDArray[np.bool_]:
    """Wrong generated answers that hold the right one; choices have a margin and are left out."""
    pairs = zip(block["wrong_text"].tolist(), block["target"].tolist(), strict=True)
    return np.array([bool(text) and holds_answer(text, str(target)) for text, target in pairs])


def _seed_role(runs: Sequence[tuple[Run, Columns]], sampled: bool) -> SeedRole:
    """What seeds vary here: prompts that differ between seeds mean few-shot draws."""
    if sampled:
        return "sampling"
    first = runs[0][1]["prompt_hash"]
    return "fewshot" if any((b["prompt_hash"] != first).any() for _, b in runs) else "replicate"
