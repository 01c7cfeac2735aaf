"""Pairs of cells: every cell against the reference, noise floors, and who equals whom."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sameweights.report.charts import AGAINST
from sameweights.report.tables import ALL, Comparison, Row, Scope

STATISTICS = (
    "delta",
    "right_to_wrong",
    "wrong_to_right",
    "mcnemar_mid_p",
    "churn_tokens",
    "churn_text",
    "churn_extracted",
    "bitwise_equal_logits",
    "mean_margin_at_divergence",
    "mean_divergence_index",
)

MAX_EQUALITY_CELLS = 14
"""Cells in the table of who equals whom: the two ends and the first others by name."""

MAX_ROWS = 300
"""Rows of the tables of pairs, those with most changed answers; the others are in tables/."""

MAX_POINTS = 600
"""Pairs in the plot of churn against score change."""


def list_pairs(table: Comparison, references: list[str], keep: str) -> tuple[list[Row], int]:
    """Entries of cells compared with a reference, over all tasks, and how many were left out.

    Beyond MAX_ROWS the pairs with most changed answers stay, and the one with the cell `keep`;
    tasks are listed below their pair while they fit as many rows.
    """
    found = [(a, b) for a, b in table.pairs if a in references]
    chosen = set(sorted(found, key=lambda pair: (pair[1] != keep, -_churn(table, pair)))[:MAX_ROWS])
    entries, room = [], MAX_ROWS
    for reference, other in (pair for pair in found if pair in chosen):
        scopes = table.scopes(reference, other)
        room -= len(scopes)
        tasks = [
            {"scope": scope, **_statistics(table, reference, other, scope)}
            for scope in (scopes if room >= 0 or other == keep else [])
        ]
        entries.append({"cell": other, **_statistics(table, reference, other, ALL), "tasks": tasks})
    return entries, len(found) - len(entries)


def _churn(table: Comparison, pair: tuple[str, str]) -> float:
    row = table.find(*pair, "churn_tokens")
    return (row["estimate"] or 0.0) if row else 0.0


def say_pairs(table: Comparison, measured: list[str]) -> str:
    """Say which pairs of cells were compared."""
    groups = Counter((cell.split("/")[0], cell.split("/")[-1]) for cell in measured)
    every = sum(n * (n - 1) // 2 for n in groups.values())
    count = len(table.pairs)
    if count == every:
        return f"All {count} pairs of measured cells were compared."
    return (
        f"Of {every} pairs of measured cells {count} were compared: every cell with the reference, "
        "the target with the cells that differ from it in one factor, and the pairs that the "
        "configuration names."
    )


def _statistics(table: Comparison, cell_a: str, cell_b: str, scope: Scope) -> Row:
    return {name: table.find(cell_a, cell_b, name, scope) for name in STATISTICS}


def choose_points(table: Comparison, references: list[str]) -> tuple[list[Row], int]:
    """Points of the plot of churn against score change, and how many were left out.

    Pairs grow with the square of the cells: beyond MAX_POINTS only those with a reference stay.
    """
    points = _list_points(table, references)
    if len(points) <= MAX_POINTS:
        return points, 0
    kept = [point for point in points if point["against"] == AGAINST[0]]
    return kept, len(points) - len(kept)


def _list_points(table: Comparison, references: list[str]) -> list[Row]:
    """One point a pair: its rows of the comparison, and what it is compared with."""
    points = []
    for a, b in table.pairs:
        delta, churn = table.find(a, b, "delta"), table.find(a, b, "churn_tokens")
        if delta and churn and delta["n"]:
            against = AGAINST[a not in references]
            points.append({"cells": (a, b), "delta": delta, "churn": churn, "against": against})
    return points


def arrange_equality(table: Comparison, cells: list[str], ends: tuple[str, str]) -> dict[str, Any]:
    """Return the square of cells: shares of bitwise equal logits and of equal answers.

    On the diagonal a cell stands against its own replicates. `left_out` counts cells without a
    place.
    """
    wanted = cells
    if len(cells) > MAX_EQUALITY_CELLS:
        first = sorted(cells, key=lambda cell: cell not in ends)[:MAX_EQUALITY_CELLS]
        wanted = [cell for cell in cells if cell in first]
    rows = [(one, [_equal(table, one, other) for other in wanted]) for one in wanted]
    least = min((e["answers"] for _, entries in rows for e in entries if e), default=1.0)
    for entry in (e for _, entries in rows for e in entries if e):
        entry["heat"] = (1 - entry["answers"]) / (1 - least) if least < 1 else 0.0
    return {"cells": wanted, "rows": rows, "left_out": len(cells) - len(wanted)}


def _equal(table: Comparison, one: str, other: str) -> Row | None:
    logits = table.either(one, other, "bitwise_equal_logits")
    churn = table.either(one, other, "churn_tokens")
    if churn is None or not churn["n"]:
        return None
    return {"logits": logits, "churn": churn, "answers": 1 - churn["estimate"]}
