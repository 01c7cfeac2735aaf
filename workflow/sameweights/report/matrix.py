"""The planned matrix as grids: scores, coverage, and every hole with its reason."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import duckdb

from sameweights.report.tables import Comparison, Row, read_rows
from sameweights.report.wording import short

Ends = tuple[str, str]
"""(reference cell, target cell) of one model and seed."""

ROLES = ("reference", "target")

MAX_SCORES = 2_000
"""Rows of the table of scores by task and metric; the others are in tables/."""

# One run is its own mean: grouping its items would take memory that grows with the matrix.
SCORES = """
WITH repeated AS (
    SELECT cell FROM measured GROUP BY cell HAVING count(*) > 1
), means AS (
    SELECT cell, task, filter, metric, value, status = 'ok' AS ok
    FROM items JOIN measured USING (cell, replicate) WHERE cell NOT IN (FROM repeated)
    UNION ALL
    SELECT cell, task, filter, metric, avg(value), bool_and(status = 'ok')
    FROM items JOIN measured USING (cell, replicate) WHERE cell IN (FROM repeated)
    GROUP BY cell, task, filter, metric, doc_id
), scores AS (
    SELECT cell, task, filter, metric, count(*) FILTER (ok) AS n, count(*) AS planned,
           avg(value) FILTER (ok) AS score
    FROM means GROUP BY ALL
), lost AS (
    SELECT cell, task, filter, metric, list(DISTINCT status ORDER BY status) AS problems
    FROM items JOIN measured USING (cell, replicate) WHERE status <> 'ok' GROUP BY ALL
)
SELECT scores.*, problems,
       (task, filter, metric) IN (SELECT (task, filter, metric) FROM primary_metrics) AS is_primary
FROM scores LEFT JOIN lost USING (cell, task, filter, metric)
ORDER BY cell, task, filter, metric
"""
"""Scores over replicates; an item counts where it was measured in all measured replicates."""


def read_cells(db: duckdb.DuckDBPyConnection, runs: list[Row]) -> list[Row]:
    """Return each planned or excluded cell with its state, reason, scores and coverage."""
    scores: dict[str, list[Row]] = {}
    for row in read_rows(db, SCORES):
        scores.setdefault(row["cell"], []).append(row)
    own: dict[str, list[Row]] = {}
    for run in runs:
        own.setdefault(run["cell"], []).append(run)
    query = "SELECT * FROM cells ORDER BY model, seed, device, backend, precision"
    cells = []
    for cell in read_rows(db, query):
        shown = scores.get(cell["cell"], [])
        state = _state(cell, own.get(cell["cell"], []))
        cells.append({**cell, **state, "scores": shown, **_pool(shown)})
    return cells


def _state(cell: Row, runs: list[Row]) -> Row:
    if cell["state"] == "excluded":
        return {"state": "excluded"}
    broken = [run for run in runs if run["outcome"] != "complete"]
    if not broken:
        return {"state": "complete"}
    state = "partial" if len(broken) < len(runs) else broken[0]["outcome"]
    reasons = {run["reason"] or "" for run in broken}
    if state == "partial":
        reasons = {f"r{run['replicate']} {run['outcome']}: {run['reason']}" for run in broken}
    return {"state": state, "reason": "; ".join(sorted(reasons))}


def _pool(scores: list[Row]) -> Row:
    """Score over all items under each task's primary filter and metric."""
    first = [row for row in scores if row["is_primary"]]
    n, planned = sum(row["n"] for row in first), sum(row["planned"] for row in first)
    total = sum(row["score"] * row["n"] for row in first if row["n"])
    return {"score": total / n if n else None, "n": n, "planned": planned}


def list_scores(cells: list[Row], ends: list[Ends]) -> tuple[list[Row], int]:
    """Cells whose scores by task fit the page, in their order, and how many were left out.

    The compared cells come first; a cell without scores takes one row for its reason.
    """
    compared = {cell for pair in ends for cell in pair}
    chosen, room = set(), MAX_SCORES
    for cell in sorted(cells, key=lambda cell: cell["cell"] not in compared):
        room -= max(1, len(cell["scores"]))
        if room < 0:
            break
        chosen.add(cell["cell"])
    shown = [cell for cell in cells if cell["cell"] in chosen]
    return shown, len(cells) - len(shown)


def find_ends(cells: list[Row], reference: str, target: str) -> list[Ends]:
    """Return (reference cell, target cell) of each model and seed.

    `reference`, `target`: device/backend/precision, as in matrix.json.
    """
    found: dict[tuple[str, int], dict[str, str]] = {}
    for cell in cells:
        found.setdefault((cell["model"], cell["seed"]), {})[short(cell["cell"])] = cell["cell"]
    return [
        (names[reference], names[target])
        for names in found.values()
        if reference in names and target in names
    ]


def arrange_grids(cells: list[Row], table: Comparison, ends: list[Ends]) -> list[dict[str, Any]]:
    """Return a grid a (model, seed): devices down, backend and precision across."""
    churns = {
        cell["cell"]: row
        for reference, _ in ends
        for cell in cells
        if (row := table.find(reference, cell["cell"], "churn_tokens"))
    }
    for reference, _ in ends:
        churns.pop(reference, None)
    roles = {cell: role for pair in ends for cell, role in zip(pair, ROLES, strict=True)}
    placed = [_place(cell, churns, roles) for cell in cells]
    grids = []
    for (model, seed), group in groupby(placed, key=lambda cell: (cell["model"], cell["seed"])):
        members = list(group)
        columns = sorted({(cell["backend"], cell["precision"]) for cell in members})
        at = {(cell["device"], (cell["backend"], cell["precision"])): cell for cell in members}
        devices = sorted({cell["device"] for cell in members})
        rows = [(device, [at.get((device, column)) for column in columns]) for device in devices]
        grids.append({"model": model, "seed": seed, "columns": columns, "rows": rows})
    return grids


def _place(cell: Row, churns: dict[str, Row], roles: dict[str, str]) -> Row:
    """A cell with its role and churn; `heat` is the churn against the page's largest, 0 to 1."""
    most = max((row["estimate"] or 0.0 for row in churns.values()), default=0.0)
    churn = churns.get(cell["cell"])
    heat = (churn["estimate"] or 0.0) / most if churn and most else 0.0
    return {**cell, "role": roles.get(cell["cell"], ""), "churn": churn, "heat": heat}


def group_holes(cells: list[Row]) -> list[Row]:
    """Cells with a reason, grouped by state and reason, as the first of each stands.

    A rule of the capabilities leaves out dozens of cells for one reason.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell["reason"]:
            groups.setdefault((cell["state"], cell["reason"]), []).append(cell["cell"])
    return [
        {"state": state, "reason": reason, "cells": names}
        for (state, reason), names in groups.items()
    ]
