"""Where the generated answers of the explained pair part: a distribution over token positions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import altair as alt
import duckdb
import numpy as np

from sameweights.intervals import share
from sameweights.report.charts import COLOURS, finish
from sameweights.report.rows import divergence_rows
from sameweights.report.tables import Row

EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""First differing token, counted from 0; the last bin is open."""


def read_divergence(db: duckdb.DuckDBPyConnection, reference: str, target: str) -> list[Row]:
    """One row a bin with the share of generated answers that part there; none without answers.

    Intervals are Wilson's; the noise floor is the same share between runs of the reference.
    """
    n, counts = _count(db, reference, target)
    n_floor, floors = _count(db, reference, reference)
    if not n:
        return []
    last = max((k for k, count in enumerate(counts) if count), default=0)
    lows, highs = share(np.full(len(counts), float(n)), np.array(counts))
    rows = []
    for k, (name, lo, hi) in enumerate(_bins()):
        if k > last:
            break
        floor, floor_hi = None, None
        if n_floor:
            floor = floors[k] / n_floor
            floor_hi = float(share(np.array([float(n_floor)]), np.array([floors[k]]))[1][0])
        rows.append(
            {
                "statistic": f"first divergent token {name}",
                "bin": name,
                "cell_a": reference,
                "cell_b": target,
                "n": n,
                "n_planned": n,
                "estimate": counts[k] / n,
                "lo": float(lows[k]),
                "hi": float(highs[k]),
                "noise_floor": floor,
                "noise_floor_hi": floor_hi,
                "sql": divergence_rows(reference, target, lo, hi),
            }
        )
    return rows


def chart_rows(rows: list[Row]) -> Iterator[Row]:
    """Rows of the chart, shares in percent."""
    for row in rows:
        shares = {
            key: None if row[key] is None else 100 * row[key]
            for key in ("estimate", "lo", "hi", "noise_floor")
        }
        answers = round(row["estimate"] * row["n"], 2)
        yield {"bin": row["bin"], **shares, "answers": answers, "n": row["n"]}


def draw_divergence(bins: int) -> Row:
    """Bars with intervals by the position at which answers part; a tick is the noise floor."""
    base = alt.Chart(alt.NamedData("divergence")).encode(
        y=alt.Y("bin:N", sort=None, title="first divergent token")
    )
    bars = base.mark_bar(height=16, color=COLOURS["change"]).encode(
        x=alt.X("estimate:Q", title="share of generated answers, %"),
        tooltip=["bin:N", "answers:Q", "n:Q", alt.Tooltip("estimate:Q", format=".1f")],
    )
    whiskers = base.mark_rule(strokeWidth=2).encode(x="lo:Q", x2="hi:Q")
    floor = base.mark_tick(thickness=3, height=22).encode(x="noise_floor:Q")
    title = "Share of generated answers by the position of their first divergent token"
    return finish(alt.layer(bars, whiskers, floor), title, 30 * bins)


def _bins() -> Iterator[tuple[str, int, int | None]]:
    """Name, first position and the one behind the last."""
    for lo, hi in pairwise(EDGES):
        yield (str(lo) if hi == lo + 1 else f"{lo} – {hi - 1}"), lo, hi
    yield f"≥ {EDGES[-1]}", EDGES[-1], None


def _count(db: duckdb.DuckDBPyConnection, cell_a: str, cell_b: str) -> tuple[int, list[float]]:
    """Generated answers compared, and how many of them part in each bin."""
    rows = divergence_rows(cell_a, cell_b, 0, None).rstrip(";")
    found = db.execute(f"SELECT mean_divergence_index FROM ({rows})").fetchall()  # noqa: S608
    places = np.array([index for (index,) in found if index is not None], dtype=np.float64)
    counts, _ = np.histogram(places, [*EDGES, np.inf])
    return len(found), [float(count) for count in counts]
