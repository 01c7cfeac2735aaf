"""How a value of the explained pair's items is spread: shares of the items by bin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import duckdb
import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.noise import upper_limit_if_identical
from sameweights.intervals import share
from sameweights.report.charts import COLOURS, finish
from sameweights.report.rows import binned_rows, spread_rows
from sameweights.report.tables import Row

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """Values from `lo` up to but without `hi`, None for no end; `lo` alone where both are equal.

    `above`: without `lo` itself.
    """

    name: str
    lo: float
    hi: float | None
    above: bool = False

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        """Which values lie in the bin."""
        low = values > self.lo if self.above else values >= self.lo
        if self.hi is None:
            return np.asarray(low)
        return np.asarray(low & ((values < self.hi) | (self.hi == self.lo) & (values == self.lo)))

    def sql(self, column: str) -> str:
        """The same as a condition."""
        if self.hi == self.lo:
            return f"{column} = {self.lo!r}"
        low = f"{column} {'>' if self.above else '>='} {self.lo!r}"
        return low if self.hi is None else f"{low} AND {column} < {self.hi!r}"


@dataclass(frozen=True)
class Spread:
    """A column of paired_items and its bins; `generated`: among generated answers only."""

    statistic: str
    column: str
    bins: Sequence[Bin]
    generated: bool = False


def count_bins(
    db: duckdb.DuckDBPyConnection, spread: Spread, reference: str, target: str
) -> list[Row]:
    """One row a bin with its share of all compared items, equal ones included; none without items.

    Intervals are Wilson's. The noise floor is the mean of the same share between the runs of
    either cell.
    """
    planned, n, counts = _count(db, spread, reference, target)
    if not n:
        return []
    again = [_count(db, spread, cell, cell) for cell in find_rerun(db, reference, target)]
    floors = [(n_runs, own) for _, n_runs, own in again if n_runs]
    return [
        {
            "statistic": f"{spread.statistic} {one.name}",
            "bin": one.name,
            "cell_a": reference,
            "cell_b": target,
            "n": n,
            "n_planned": planned,
            "unit": "generated answers" if spread.generated else "items",
            "items": float(counts[k]),
            **wilson(float(counts[k]), n),
            **noise_floor([(n_runs, float(own[k])) for n_runs, own in floors]),
            "sql": binned_rows(
                reference, target, one.sql(spread.column), generated=spread.generated
            ),
        }
        for k, one in enumerate(spread.bins)
    ]


def find_rerun(db: duckdb.DuckDBPyConnection, *cells: str) -> list[str]:
    """Which of the cells have more than one measured run."""
    query = "SELECT cell FROM measured GROUP BY cell HAVING count(*) > 1"
    found = {cell for (cell,) in db.execute(query).fetchall()}
    return [cell for cell in cells if cell in found]


def wilson(count: float, n: int) -> Row:
    """A share with Wilson's interval; nothing without rows."""
    if not n:
        return dict.fromkeys(("estimate", "lo", "hi"))
    (lo,), (hi,) = share(np.array([float(n)]), np.array([float(count)]))
    return {"estimate": count / n, "lo": float(lo), "hi": float(hi)}


def noise_floor(found: list[tuple[int, float]]) -> Row:
    """Mean share and largest upper limit from (n, count) of each cell that was run twice."""
    if not found:
        return {"noise_floor": None, "noise_floor_hi": None}
    limits = [wilson(k, n)["hi"] if k else upper_limit_if_identical(n) for n, k in found]
    return {"noise_floor": sum(k / n for n, k in found) / len(found), "noise_floor_hi": max(limits)}


def _count(
    db: duckdb.DuckDBPyConnection, spread: Spread, cell_a: str, cell_b: str
) -> tuple[int, int, Floats]:
    """Items planned and compared, and how many of these lie in each bin."""
    query = spread_rows(cell_a, cell_b, spread.column, generated=spread.generated)
    found = db.execute(query).fetchall()
    compared = [value for value, is_compared in found if is_compared]
    values = np.array([value for value in compared if value is not None], dtype=np.float64)
    counts = [np.count_nonzero(one.holds(values)) for one in spread.bins]
    return len(found), len(compared), np.array(counts, dtype=np.float64)


def chart_rows(rows: list[Row]) -> Iterator[Row]:
    """Rows of the chart, shares in percent."""
    for row in rows:
        shares = {
            key: None if row[key] is None else 100 * row[key]
            for key in ("estimate", "lo", "hi", "noise_floor")
        }
        yield {"bin": row["bin"], **shares, "items": row["items"], "n": row["n"]}


def draw_histogram(name: str, axis: str, unit: str, description: str, bins: int) -> Row:
    """Bars with intervals, named data `name`; a tick is the noise floor."""
    base = alt.Chart(alt.NamedData(name)).encode(y=alt.Y("bin:N", sort=None, title=axis))
    bars = base.mark_bar(height=16, color=COLOURS["change"]).encode(
        x=alt.X(
            "estimate:Q", title=f"share of {unit}, %", axis=alt.Axis(tickCount=6, labelFlush=False)
        ),
        tooltip=["bin:N", "items:Q", "n:Q", alt.Tooltip("estimate:Q", format=".1f")],
    )
    whiskers = base.mark_rule(strokeWidth=2).encode(x="lo:Q", x2="hi:Q")
    floor = base.mark_tick(thickness=3, height=22).encode(x="noise_floor:Q")
    return finish(alt.layer(bars, whiskers, floor), description, 30 * bins)
