"""Pairs of cells compared, item by item, beside the noise floor of each cell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

from sameweights import intervals
from sameweights.align import align
from sameweights.attribution.noise import upper_limit_if_identical
from sameweights.metrics import all_metrics
from sameweights.paired import pair_query
from sameweights.pairs import choose_pairs
from sameweights.reading import open_warehouse

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

FLOORED = ["churn_tokens", "churn_text", "churn_extracted", "right_to_wrong", "wrong_to_right"]
"""Statistics with a noise floor: their value between replicates of an unchanged cell."""

ROWS_AT_ONCE = 2_000_000
"""Rows of paired replicates held in memory at a time."""

SCOPE = ["task", "filter", "metric"]
MOMENTS = ["n", "total", "squares", "up", "down"]
MOMENT_SCHEMA: dict[str, Any] = {
    "pair": pl.Int64,
    **dict.fromkeys(SCOPE, pl.String),
    "statistic": pl.String,
    "n_planned": pl.Int64,
    "is_binary": pl.Boolean,
    "left_out": pl.String,
    **dict.fromkeys(MOMENTS, pl.Float64),
}
"""Sums over the items that were measured in all runs; `up`, `down`: items above and below 0.
`left_out`: JSON objects with blanks between that count the other items by status."""

FINGERPRINTS = """
SELECT cell, replicate, count(*) AS rows, sum(hash(task, doc_id, filter, metric, doc_hash,
       prompt_hash, request_ids)::HUGEINT)::VARCHAR AS items,
       split_part(cell, '/', 1) AS model, split_part(cell, '/', -1) AS seed
FROM items JOIN measured USING (cell, replicate)
GROUP BY cell, replicate ORDER BY cell, replicate
"""

ITEMS_OF_RUN = "SELECT * FROM items WHERE cell = $cell AND replicate = $replicate"


def compare_cells(warehouse: Path, out: Path) -> None:
    """Write one row per pair, task (or 'all'), filter, metric and statistic.

    Rows with cell_a = cell_b compare the measured replicates of that cell: its noise floor. Every
    estimate is a mean over items of the mean over pairs of replicates; 'all' takes each task's
    primary filter and metric. `detail` is JSON or null: `left_out` counts the planned items that
    were not measured in all runs, by status.
    Raises ComparabilityError for runs of one model and seed that are not the same items.
    """
    with open_warehouse(warehouse) as db:
        check_comparable(db)
        pairs = _list_pairs(db)
        moments = _gather(db, pairs)
        primary = db.sql("SELECT task, filter, metric FROM primary_metrics").pl()
    frame = _add_floors(_summarize(_add_all(moments, primary)), pairs)
    part = out.with_name(out.name + ".part")
    frame.select(pl.col(name).cast(kind) for name, kind in COMPARISON_SCHEMA.items()).write_parquet(
        part
    )
    part.replace(out)


def check_comparable(db: duckdb.DuckDBPyConnection) -> None:
    """Refuse measured runs of one model and seed that are not the same items.

    Equal sums of hashes over the rows stand for equal items; where they differ, the rows say how.
    """
    first: dict[tuple[str, str], tuple[Any, ...]] = {}
    for run in db.sql(FINGERPRINTS).fetchall():
        key = (run[4], run[5])
        known = first.setdefault(key, run)
        if known is run or known[2:4] != run[2:4]:
            left, right = (_items(db, *one[:2]) for one in (known, run))
            align(left, right, (_name(known), _name(run)))


def _items(db: duckdb.DuckDBPyConnection, cell: str, replicate: int) -> pl.DataFrame:
    found: pl.DataFrame = db.sql(ITEMS_OF_RUN, params={"cell": cell, "replicate": replicate}).pl()
    return found


def _name(run: tuple[Any, ...]) -> str:
    return f"{run[0]}/r{run[1]}"


def _list_pairs(db: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return pair, cell_a, cell_b, replicates: first each cell with itself, then the others."""
    meta = {key: json.loads(value) for key, value in db.sql("SELECT * FROM meta").fetchall()}
    runs = dict(
        db.sql("SELECT cell, count(*) FROM measured GROUP BY cell ORDER BY cell").fetchall()
    )
    requested = [tuple(pair) for pair in meta.get("pairs", [])]
    chosen = [(cell, cell) for cell, count in runs.items() if count > 1]
    chosen += choose_pairs(runs, meta["reference"], meta["target"], requested)
    rows = [(n, a, b, runs[a] * runs[b]) for n, (a, b) in enumerate(chosen)]
    names = ["pair", "cell_a", "cell_b", "replicates"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _gather(db: duckdb.DuckDBPyConnection, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return n_planned, is_binary, left_out and the moments by pair, scope and statistic."""
    db.register("frame", pairs)
    db.execute("CREATE TEMP TABLE pairs AS SELECT pair, cell_a, cell_b FROM frame")
    db.unregister("frame")
    query = (
        "SELECT pair, task, filter, metric, count(*) AS n_planned, "  # noqa: S608
        "coalesce(bool_and(is_binary) FILTER (ok), true) AS is_binary, "
        f"to_json(histogram(status) FILTER (NOT ok)) AS left_out, {_spell_moments()} "
        f"FROM (SELECT *, status = 'ok' AS ok FROM ({pair_query('pairs', 'part', 'part')})) "
        "GROUP BY ALL"
    )
    found = [pl.DataFrame(schema=MOMENT_SCHEMA)]
    for task, lo, hi in _parts(db, int(pairs["replicates"].sum())):
        db.execute(
            "CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM measured_items "
            "WHERE task = $task AND doc_id BETWEEN $lo AND $hi",
            {"task": task, "lo": lo, "hi": hi},
        )
        wide = db.sql(query).pl()
        found += [_take(wide, metric.name) for metric in all_metrics()]
    return _sum_up(pl.concat(found), ["pair", *SCOPE])


def _spell_moments() -> str:
    return ", ".join(
        f"count({m}) FILTER (ok) AS {m}__n, coalesce(sum({m}) FILTER (ok), 0) AS {m}__total, "
        f"coalesce(sum({m} * {m}) FILTER (ok), 0) AS {m}__squares, "
        f"count(*) FILTER (ok AND {m} > 0) AS {m}__up, "
        f"count(*) FILTER (ok AND {m} < 0) AS {m}__down"
        for m in (metric.name for metric in all_metrics())
    )


def _take(wide: pl.DataFrame, statistic: str) -> pl.DataFrame:
    moments = [pl.col(f"{statistic}__{name}").alias(name) for name in MOMENTS]
    named = wide.with_columns(pl.lit(statistic).alias("statistic"), *moments)
    return named.select(pl.col(key).cast(kind) for key, kind in MOMENT_SCHEMA.items())


def _sum_up(moments: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    keys = [*keys, "statistic"]
    return (
        moments.group_by(keys)
        .agg(
            pl.col("n_planned", *MOMENTS).sum(),
            pl.col("is_binary").all(),
            pl.col("left_out").drop_nulls().str.join(" "),
        )
        .sort(keys)
    )


def _parts(db: duckdb.DuckDBPyConnection, per_item: int) -> Iterator[tuple[str, int, int]]:
    """Yield (task, first and last doc_id) so that the paired rows of a part fit ROWS_AT_ONCE."""
    docs = db.sql(
        "SELECT task, list(DISTINCT doc_id ORDER BY doc_id), count(DISTINCT (filter, metric)) "
        "FROM items WHERE (cell, replicate) IN (SELECT min((cell, replicate)) FROM measured "
        "GROUP BY split_part(cell, '/', 1), split_part(cell, '/', -1)) GROUP BY task ORDER BY task"
    ).fetchall()
    for task, ids, metrics in docs:
        step = max(1, ROWS_AT_ONCE // max(1, per_item * metrics))
        for start in range(0, len(ids), step):
            block = ids[start : start + step]
            yield task, block[0], block[-1]


def _add_all(moments: pl.DataFrame, primary: pl.DataFrame) -> pl.DataFrame:
    """Add the scope 'all' over each task's primary filter and metric, and spread within tasks.

    Tasks of a single item have no spread to measure and share one stratum; where nobody is to
    share with, the item joins the largest task.
    """
    keys = ["pair", "statistic"]
    tasks = moments.join(primary, on=SCOPE, how="semi")
    single, largest = pl.col("n") == 1, pl.col("n").arg_max()
    merged = pl.when(single).then(pl.lit("")).otherwise("task")
    alone = (single.sum() == 1) & ((pl.col("n") > 0).sum() > 1)
    joins = pl.when(single & alone).then(pl.col("task").get(largest)).otherwise(merged)
    strata = _spread(_sum_up(tasks.with_columns(joins.over(keys).alias("task")), ["pair", "task"]))
    lost = _sum_up(tasks, ["pair"]).select(*keys, "n_planned", "is_binary", "left_out")
    pooled = (
        strata.group_by(keys)
        .agg(pl.col(*MOMENTS, "within").sum(), (pl.col("n") > 0).sum().alias("strata"))
        .join(lost, on=keys)
        .with_columns(pl.lit("all").alias("task"), filter=pl.lit(""), metric=pl.lit(""))
    )
    own = _spread(moments).with_columns(strata=pl.lit(1, dtype=pl.UInt32))
    return pl.concat([own, pooled], how="diagonal_relaxed").sort("pair", *SCOPE, "statistic")


def _spread(moments: pl.DataFrame) -> pl.DataFrame:
    """Add `within`: n / (n - 1) times the sum of squares about the mean."""
    n, total = pl.col("n"), pl.col("total")
    about = (pl.col("squares") - total**2 / n) * n / (n - 1)
    return moments.with_columns(within=pl.when(n > 1).then(about).otherwise(0.0))


def _summarize(moments: pl.DataFrame) -> pl.DataFrame:
    """Turn moments into estimates with their intervals."""
    binary = [metric.name for metric in all_metrics() if metric.binary]
    wanted = pl.col("is_binary") | ~pl.col("statistic").is_in(binary)
    moments = moments.filter(wanted)
    found = [pl.DataFrame()]
    for metric in all_metrics():
        own = moments.filter(statistic=metric.name)
        is_share = (metric.kind == "score") & own["is_binary"].to_numpy()
        estimate, lo, hi = _measure(metric.kind, own, is_share)
        frame = own.with_columns(estimate=estimate, lo=lo, hi=hi)
        found.append(frame)
    numbers = pl.col("estimate", "lo", "hi").fill_nan(None)
    detail = pl.col("left_out").map_elements(_detail, return_dtype=pl.String)
    return pl.concat(found, how="diagonal").with_columns(numbers, detail=detail)


def _measure(
    kind: str, frame: pl.DataFrame, is_share: NDArray[np.bool_]
) -> tuple[intervals.Floats, intervals.Floats, intervals.Floats]:
    n, total, squares, up, down, within, strata = (
        frame[name].cast(pl.Float64).to_numpy() for name in (*MOMENTS, "within", "strata")
    )
    with np.errstate(invalid="ignore"):
        estimate = total / n
    none = np.full(len(n), np.nan)
    if kind == "test":
        return np.where(n > 0, intervals.mcnemar_mid_p(down, up), np.nan), none, none
    if kind == "difference":
        enough = np.where(n > strata + 1, n - strata, 0)
        lo, hi = intervals.difference(n, total, within, squares, up + down, enough)
        # Scores of 0 and 1 differ by at most 1; what lies beyond costs no coverage.
        most = np.where(frame["is_binary"].to_numpy(), 1.0, np.inf)
        return estimate, np.maximum(lo, -most), np.minimum(hi, most)
    if kind == "mean":
        return estimate, *intervals.mean(n, total, squares)
    shares, means = intervals.share(n, total), intervals.mean(n, total, squares)
    if kind == "score":
        pairs = zip(shares, means, strict=True)
        return estimate, *(np.where(is_share, a, b) for a, b in pairs)
    return estimate, *shares


def _detail(left_out: str) -> str | None:
    counts: Counter[str] = Counter()
    for line in left_out.split():
        counts.update(json.loads(line))
    return json.dumps({"left_out": dict(sorted(counts.items()))}) if counts else None


def _add_floors(found: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Add the cells' names, and beside each floored number the floor of its two cells."""
    named = found.join(pairs, on="pair").sort("pair", *SCOPE, "statistic")
    keys = ["cell_a", *SCOPE, "statistic"]
    floored = pl.col("statistic").is_in(FLOORED)
    # Nothing was seen in n items, which bounds the rate but does not make it zero.
    limit = pl.struct("estimate", "n", "hi").map_elements(_own_limit, return_dtype=pl.Float64)
    own = named.filter(floored & (pl.col("cell_a") == pl.col("cell_b"))).select(
        *keys, floor="estimate", limit=limit
    )
    for side in ("a", "b"):
        floors = own.rename({"cell_a": f"cell_{side}", "floor": f"f_{side}", "limit": f"l_{side}"})
        on = [f"cell_{side}", *SCOPE, "statistic"]
        named = named.join(floors, on=on, how="left", maintain_order="left")
    return named.with_columns(
        noise_floor=pl.mean_horizontal("f_a", "f_b"), noise_floor_hi=pl.max_horizontal("l_a", "l_b")
    )


def _own_limit(row: dict[str, Any]) -> float | None:
    if row["estimate"] == 0.0:
        return upper_limit_if_identical(row["n"])
    limit: float | None = row["hi"]
    return limit
