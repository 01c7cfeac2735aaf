"""Where the generated answers of the explained pair part: a distribution over token positions."""

from __future__ import annotations

from itertools import pairwise

import duckdb

from sameweights.report.histogram import Bin, Spread, count_bins, draw_histogram
from sameweights.report.tables import Row

EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""First differing token, counted from 0; the last bin is open."""

POSITIONS = Spread(
    "first divergent token",
    "mean_divergence_index",
    [
        *(
            Bin(str(lo) if hi == lo + 1 else f"{lo} – {hi - 1}", lo, hi)
            for lo, hi in pairwise(EDGES)
        ),
        Bin(f"≥ {EDGES[-1]}", EDGES[-1], None),
    ],
    generated=True,
)


def read_divergence(db: duckdb.DuckDBPyConnection, reference: str, target: str) -> list[Row]:
    """One row a bin up to the last that holds an answer, shares of all generated answers."""
    rows = count_bins(db, POSITIONS, reference, target)
    last = max((k for k, row in enumerate(rows) if row["items"]), default=0)
    return rows[: last + 1]


def draw_divergence(bins: int) -> Row:
    """Bars by the position at which answers part."""
    title = "Share of generated answers by the position of their first divergent token"
    axis = "first divergent token"
    return draw_histogram("divergence", axis, "generated answers", title, bins)
