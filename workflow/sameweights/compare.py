"""Every pair of cells compared, item by item, beside the noise floor of each cell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from sameweights.align import KEY, align
from sameweights.attribution.noise import upper_limit_if_identical
from sameweights.metrics import Pair, Statistic, measure_all

Run = tuple[str, int]
"""(cell, replicate)."""

Floor = tuple[float | None, float | None]
"""A statistic between replicates, and the upper limit of its 95% interval."""

Floors = dict[tuple[str, ...], Floor]
"""Floors by (cell, task, filter, metric, statistic)."""

COMPARISON_SCHEMA: dict[str, Any] = {
    "cell_a": pl.String,
    "cell_b": pl.String,
    "task": pl.String,
    "filter": pl.String,
    "metric": pl.String,
    "statistic": pl.String,
    "n": pl.Int64,
    "n_planned": pl.Int64,
    "estimate": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "noise_floor": pl.Float64,
    "noise_floor_hi": pl.Float64,
    "detail": pl.String,
}

FLOORED = ("churn_tokens", "churn_text", "churn_extracted", "right_to_wrong", "wrong_to_right")
"""Statistics with a noise floor: their value between replicates of an unchanged cell."""

EVIDENCE = """
SELECT cell, replicate, task, doc_id,
       CASE WHEN count(logits_sha256) = count(*)
            THEN list(logits_sha256 ORDER BY request_index, repeat) END AS logits,
       first(token_ids ORDER BY request_index, repeat) AS token_ids,
       first(margins ORDER BY request_index, repeat) AS margins
FROM (
    SELECT r.cell, r.replicate, q.task, q.doc_id, q.request_index, q.repeat,
           r.logits_sha256, r.token_ids, r.margins
    FROM requests q
    JOIN cells c ON c.model = q.model AND c.seed = q.seed
    JOIN responses r ON r.request_id = q.request_id AND r.cell = c.cell
)
GROUP BY ALL
"""


def compare_cells(warehouse: Path, out: Path) -> None:
    """Write one row per pair, task (or 'all'), filter, metric and statistic.

    Rows with cell_a = cell_b compare the first two measured replicates of that cell: its noise
    floor. Cells are compared by their first measured replicate. `detail` is JSON or null:
    `left_out` counts the planned items not measured in both runs by status,
    `mean_over_replicates` is a score or delta over all replicates where those differ.
    Raises ComparabilityError for cells of one model and seed that are not the same items.
    """
    with duckdb.connect(str(warehouse), read_only=True) as db:
        items = load_items(db)
        reference = read_role(db, "reference")
    runs: dict[Run, pl.DataFrame] = {
        (str(cell), int(replicate)): frame
        for (cell, replicate), frame in items.partition_by(
            "cell", "replicate", as_dict=True, maintain_order=True
        ).items()
        if (frame["status"] == "ok").any()
    }
    _gate_replicates(runs)
    rows: list[dict[str, Any]] = []
    floors: Floors = {}
    for left, right in [*replicate_pairs(runs), *cell_pairs(runs, reference)]:
        joined = align(runs[left], runs[right], (_name(left), _name(right)))
        for scope, pair in scopes(joined):
            for statistic in measure_all(pair):
                rows.append(_row(left[0], right[0], scope, pair, statistic, floors))
    frame = pl.DataFrame(rows, schema=COMPARISON_SCHEMA)
    part = out.with_name(out.name + ".part")
    frame.write_parquet(part)
    part.replace(out)


def load_items(db: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return all items with their evidence (logits, token_ids, margins) and mean_value."""
    items: pl.DataFrame = db.sql("SELECT * FROM items").pl()
    evidence: pl.DataFrame = db.sql(EVIDENCE).pl()
    keys = ["cell", "replicate", "task", "doc_id"]
    return items.join(evidence, on=keys, how="left", maintain_order="left").with_columns(
        mean_value=pl.col("value").mean().over("cell", *KEY)
    )


def read_role(db: duckdb.DuckDBPyConnection, role: str) -> str:
    """Return the matrix's `reference` or `target` as device/backend/precision."""
    (found,) = db.execute("SELECT value FROM meta WHERE key = $role", {"role": role}).fetchall()
    return str(json.loads(found[0]))


def _gate_replicates(runs: dict[Run, pl.DataFrame]) -> None:
    """Refuse a cell whose replicates, which mean_value pools, are not the same items."""
    for own in _runs_by_cell(runs).values():
        for other in own[1:]:
            align(runs[own[0]], runs[other], (_name(own[0]), _name(other)))


def replicate_pairs(runs: dict[Run, Any]) -> Iterator[tuple[Run, Run]]:
    """Yield the first two measured replicates of each cell that has them."""
    for own in _runs_by_cell(runs).values():
        if len(own) > 1:
            yield own[0], own[1]


def cell_pairs(runs: dict[Run, Any], reference: str) -> Iterator[tuple[Run, Run]]:
    """Yield each pair of cells of one model and seed once, the reference first."""
    firsts = [own[0] for own in _runs_by_cell(runs).values()]
    firsts.sort(key=lambda run: (_middle(run[0]) != reference, run))
    for left, right in combinations(firsts, 2):
        if _ends(left[0]) == _ends(right[0]):
            yield left, right


def _runs_by_cell(runs: dict[Run, Any]) -> dict[str, list[Run]]:
    grouped: dict[str, list[Run]] = {}
    for run in sorted(runs):
        grouped.setdefault(run[0], []).append(run)
    return grouped


def scopes(joined: pl.DataFrame) -> Iterator[tuple[tuple[str, str, str], Pair]]:
    """Yield (task, filter, metric) with its pair, then 'all' over one metric a task."""
    groups = joined.partition_by("task", "filter", "metric", as_dict=True, maintain_order=True)
    chosen: dict[str, tuple[Any, ...]] = {}
    for name in sorted(groups):
        yield (str(name[0]), str(name[1]), str(name[2])), _pair(groups[name])
        chosen.setdefault(str(name[0]), name)
    yield ("all", "", ""), _pair(pl.concat([groups[name] for name in chosen.values()]))


def _pair(joined: pl.DataFrame) -> Pair:
    failed = pl.when(pl.col("status") != "ok").then("status").otherwise("status_b")
    statuses = joined.select(failed.alias("status"))["status"]
    left_out = {s: int((statuses == s).sum()) for s in sorted(statuses.unique()) if s != "ok"}
    return Pair(joined.filter(statuses == "ok").sort(KEY), joined.height, left_out)


def _row(
    cell_a: str,
    cell_b: str,
    scope: tuple[str, str, str],
    pair: Pair,
    statistic: Statistic,
    floors: Floors,
) -> dict[str, Any]:
    key = (*scope, statistic.name)
    floor: Floor = (None, None)
    if statistic.name in FLOORED:
        if cell_a == cell_b:
            floors[(cell_a, *key)] = _own_floor(statistic)
        floor = _mean_floor([floors.get((cell, *key)) for cell in (cell_a, cell_b)])
    return {
        "cell_a": cell_a,
        "cell_b": cell_b,
        **dict(zip(("task", "filter", "metric"), scope, strict=True)),
        "statistic": statistic.name,
        "n": statistic.n,
        "n_planned": pair.n_planned,
        "estimate": statistic.estimate,
        "lo": statistic.lo,
        "hi": statistic.hi,
        "noise_floor": floor[0],
        "noise_floor_hi": floor[1],
        "detail": _detail(pair, statistic),
    }


def _detail(pair: Pair, statistic: Statistic) -> str | None:
    found = {**({"left_out": pair.left_out} if pair.left_out else {}), **statistic.detail}
    return json.dumps(found) if found else None


def _own_floor(statistic: Statistic) -> Floor:
    if statistic.estimate == 0.0:
        # Nothing was seen in n items, which bounds the rate but does not make it zero.
        return 0.0, upper_limit_if_identical(statistic.n)
    return statistic.estimate, statistic.hi


def _mean_floor(floors: list[Floor | None]) -> Floor:
    """Mean floor of the cells that have one, and the larger of their upper limits."""
    values = [floor[0] for floor in floors if floor and floor[0] is not None]
    uppers = [floor[1] for floor in floors if floor and floor[1] is not None]
    return (sum(values) / len(values) if values else None, max(uppers, default=None))


def _name(run: Run) -> str:
    return f"{run[0]}/r{run[1]}"


def _middle(cell: str) -> str:
    """device/backend/precision of a cell id."""
    return "/".join(cell.split("/")[1:4])


def _ends(cell: str) -> tuple[str, str]:
    """(model, seed) of a cell id."""
    parts = cell.split("/")
    return parts[0], parts[-1]
