"""Pairs of cells: every cell against the reference, noise floors, and who equals whom."""

from __future__ import annotations

from typing import Any

from sameweights.report.charts import AGAINST
from sameweights.report.tables import ALL, Comparison, Row, Scope
from sameweights.report.wording import short

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
"""Cells in the table of who equals whom; with more, the reference's row stands alone."""

MAX_POINTS = 600
"""Pairs in the plot of churn against score change."""


def list_pairs(table: Comparison, references: list[str]) -> list[Row]:
    """One entry a cell compared with a reference, over all tasks, with its tasks below it."""
    found = [(a, b) for a, b in table.pairs if a in references]
    return [
        {
            "cell": other,
            **_statistics(table, reference, other, ALL),
            "tasks": [
                {"scope": scope, **_statistics(table, reference, other, scope)}
                for scope in table.scopes(reference, other)
            ],
        }
        for reference, other in found
    ]


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
    """One point a pair, both numbers in points."""
    points = []
    for a, b in table.pairs:
        delta, churn = table.find(a, b, "delta"), table.find(a, b, "churn_tokens")
        if not (delta and churn and delta["n"]):
            continue
        point: Row = {"pair": f"{short(a)} → {short(b)}", "n": delta["n"]}
        for name, row in (("delta", delta), ("churn", churn)):
            for key in ("estimate", "lo", "hi"):
                value = row[key]
                point[name if key == "estimate" else f"{name}_{key}"] = (
                    None if value is None else 100 * value
                )
        point["against"] = AGAINST[a not in references]
        points.append(point)
    return points


def arrange_equality(table: Comparison, cells: list[str], reference: str) -> dict[str, Any]:
    """Return the square of cells: shares of bitwise equal logits and of equal answers.

    On the diagonal a cell stands against its own replicate.
    """
    wanted = cells if len(cells) <= MAX_EQUALITY_CELLS else [reference]
    rows = [(one, [_equal(table, one, other) for other in cells]) for one in wanted]
    least = min((e["answers"] for _, entries in rows for e in entries if e), default=1.0)
    for entry in (e for _, entries in rows for e in entries if e):
        entry["heat"] = (1 - entry["answers"]) / (1 - least) if least < 1 else 0.0
    return {"cells": cells, "rows": rows}


def _equal(table: Comparison, one: str, other: str) -> Row | None:
    logits = table.either(one, other, "bitwise_equal_logits")
    churn = table.either(one, other, "churn_tokens")
    if churn is None or not churn["n"]:
        return None
    share = logits["estimate"] if logits else None
    return {"logits": share, "answers": 1 - churn["estimate"], "n": churn["n"]}
