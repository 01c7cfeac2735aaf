"""How sure the reference was where an answer of the explained pair parts."""

from __future__ import annotations

from itertools import pairwise

import duckdb

from sameweights.report.histogram import Bin, Spread, count_bins, draw_histogram
from sameweights.report.tables import Row

TIE = "exact tie"
EDGES_NATS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Margins; the last bin is open."""

MARGINS = Spread(
    "answers changed at a margin, nats:",
    "mean_margin_at_divergence",
    [
        # At a tie rounding decides whatever its size, so that ties must not pass for small margins.
        Bin(TIE, 0.0, 0.0),
        *(Bin(f"{lo:g} – {hi:g}", lo, hi, above=lo == 0) for lo, hi in pairwise(EDGES_NATS)),
        Bin(f"≥ {EDGES_NATS[-1]:g}", EDGES_NATS[-1], None),
    ],
)


def read_margins(db: duckdb.DuckDBPyConnection, reference: str, target: str) -> list[Row]:
    """One row a bin, shares of all compared items; empty where no changed item has a margin."""
    rows = count_bins(db, MARGINS, reference, target)
    return rows if any(row["items"] for row in rows) else []


def draw_margins() -> Row:
    """Bars by the margin at the first divergent token."""
    title = "Changed answers by the reference's margin at the first divergent token"
    axis = "reference's margin, nats"
    return draw_histogram("margins", axis, "items", title, len(MARGINS.bins))
