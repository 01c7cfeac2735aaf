"""How far two cells agree on the next token, by its position: best token, and divergence (KLD).

Read where both cells saw the same text: every scored token, and generated ones up to and including
the first that differs. So it needs no run of its own, and no drift of an answer is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import altair as alt
import duckdb
import numpy as np
import polars as pl

from sameweights import intervals
from sameweights.report.charts import COLOURS, finish
from sameweights.report.histogram import Bin, find_rerun, noise_floor
from sameweights.report.rows import agreement_places, agreement_rows
from sameweights.report.tables import Row

EDGES = (0, 1, 4, 16, 64, 256)
"""Positions in an answer, counted from 0; the last bin is open."""

BINS = [
    Bin("all", 0, None),
    *(Bin(str(lo) if hi == lo + 1 else f"{lo} – {hi - 1}", lo, hi) for lo, hi in pairwise(EDGES)),
    Bin(f"≥ {EDGES[-1]}", EDGES[-1], None),
]

STATISTICS = {"differs": "best next token differs", "kld": "KLD of the next token, nats"}

ITEM = ("task", "doc_id")


def read_agreement(db: duckdb.DuckDBPyConnection, reference: str, target: str) -> list[Row]:
    """One entry a bin with shared positions: its name `bin`, their number, and two numbers.

    `differs`: share of the positions at which the likeliest token is another one. `kld`: mean
    Kullback-Leibler divergence there, nats. Both are means over items of the mean over the item's
    positions. The noise floor is the same between two runs of either cell. Empty where a cell has
    stored no candidates.
    """
    places = db.sql(agreement_places(reference, target, (0, 0))).pl()
    if places.is_empty():
        return []
    model, *_, seed = reference.split("/")
    planned = _count_planned(db, model, int(seed.removeprefix("s")))
    again = [
        db.sql(agreement_places(cell, cell, (0, 1))).pl()
        for cell in find_rerun(db, reference, target)
    ]
    entries = []
    for one in BINS:
        found = _by_item(places, one)
        if found.is_empty():
            continue
        reruns = [own for own in (_by_item(rerun, one) for rerun in again) if not own.is_empty()]
        shared = {"cell_a": reference, "cell_b": target, "n": found.height, "n_planned": planned}
        entry: Row = {"bin": one.name, "positions": int(found["positions"].sum())}
        for column, statistic in STATISTICS.items():
            entry[column] = {
                **shared,
                "statistic": f"{statistic}, position {one.name}",
                **_mean(found[column].to_numpy(), column),
                **_floor([own[column].to_numpy() for own in reruns], column),
                "sql": agreement_rows(reference, target, column, one.sql("position")),
            }
        entries.append(entry)
    return entries


def _count_planned(db: duckdb.DuckDBPyConnection, model: str, seed: int) -> int:
    query = "SELECT count(DISTINCT (task, doc_id)) FROM requests WHERE model = ? AND seed = ?"
    ((n,),) = db.execute(query, [model, seed]).fetchall()
    return int(n)


def _by_item(places: pl.DataFrame, one: Bin) -> pl.DataFrame:
    inside = places.filter(pl.Series(one.holds(places["position"].to_numpy())))
    means = pl.col(*STATISTICS).mean()
    return inside.group_by(ITEM, maintain_order=True).agg(means, positions=pl.len())


def _mean(values: Any, column: str) -> Row:
    """Mean over items with its interval: Wilson's for shares, Student's t cut at 0 for nats."""
    n, total = np.array([float(len(values))]), np.array([float(values.sum())])
    if column == "differs":
        lo, hi = intervals.share(n, total)
    else:
        lo, hi = intervals.mean(n, total, np.array([float((values**2).sum())]))
    limits = (None if np.isnan(limit[0]) else float(limit[0]) for limit in (lo, hi))
    return {"estimate": float(values.mean()), **dict(zip(("lo", "hi"), limits, strict=True))}


def _floor(reruns: list[Any], column: str) -> Row:
    if column == "differs":
        return noise_floor([(len(values), float(values.sum())) for values in reruns])
    means = [float(values.mean()) for values in reruns]
    return {"noise_floor": float(np.mean(means)) if means else None, "noise_floor_hi": None}


def chart_rows(entries: list[Row]) -> Iterator[Row]:
    """Rows of both charts: shares in percent, divergences in nats."""
    for entry in entries:
        row = {"position": entry["bin"], "positions": entry["positions"]}
        for column, scale in (("differs", 100), ("kld", 1)):
            for key in ("estimate", "lo", "hi", "noise_floor"):
                value = entry[column][key]
                row[f"{column}_{key}"] = None if value is None else scale * value
        yield {**row, "items": entry["kld"]["n"]}


def draw_agreement(column: str, bins: int) -> Row:
    """Bars by position with intervals; a tick is the noise floor."""
    title = {
        "differs": "share of positions, %",
        "kld": "mean divergence, nats (lower bound)",
    }[column]
    axis = alt.Axis(tickCount=5, labelFlush=False)
    base = alt.Chart(alt.NamedData("agreement")).encode(
        y=alt.Y("position:N", sort=None, title="position in the answer")
    )
    bars = base.mark_bar(height=16, color=COLOURS["change"]).encode(
        x=alt.X(f"{column}_estimate:Q", title=title, axis=axis),
        tooltip=[
            "position:N",
            "items:Q",
            "positions:Q",
            alt.Tooltip(f"{column}_estimate:Q", format=".3~g"),
        ],
    )
    whiskers = base.mark_rule(strokeWidth=2).encode(x=f"{column}_lo:Q", x2=f"{column}_hi:Q")
    floor = base.mark_tick(thickness=3, height=22).encode(x=f"{column}_noise_floor:Q")
    description = f"{STATISTICS[column]}, by the position of the token in the answer"
    return finish(alt.layer(bars, whiskers, floor), description, 30 * bins)
