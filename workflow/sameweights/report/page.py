"""Render the page, the Markdown summary and the verdict line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sameweights.report.tables import (
    SCORES,
    read_changed,
    read_comparison,
    read_meta,
    read_rows,
)
from sameweights.report.verdict import find, percent, points, say_verdict, short

PAIR_STATISTICS = (
    "delta",
    "right_to_wrong",
    "wrong_to_right",
    "churn_tokens",
    "churn_text",
    "churn_extracted",
    "bitwise_equal_logits",
    "mean_margin_at_divergence",
    "mean_divergence_index",
)


def build_report(
    warehouse: Path,
    comparison: Path,
    attribution: Path,
    assets: Path,
    out_html: Path,
    out_md: Path,
    out_verdict: Path,
) -> None:
    """Write report.html (one file, no script, no network), report.md and verdict.txt.

    All text from models, devices and configuration is escaped by the template engine.
    """
    context = read_context(warehouse, comparison, attribution)
    for template, out in (("template.html.j2", out_html), ("summary.md.j2", out_md)):
        environment = Environment(
            loader=FileSystemLoader(assets),
            autoescape=template.endswith(".html.j2"),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"points": points, "percent": percent, "short": short}
        style = (assets / "style.css").read_text(encoding="utf-8")
        text = environment.get_template(template).render(**context, style=style)
        # A lone surrogate in a model's text cannot be encoded: show its escape.
        out.write_bytes(text.encode("utf-8", "backslashreplace"))
    out_verdict.write_text(context["verdict"] + "\n", encoding="utf-8")


def read_context(warehouse: Path, comparison: Path, attribution: Path) -> dict[str, Any]:
    """Gather everything that the templates show."""
    rows = read_comparison(comparison)
    split = json.loads(attribution.read_bytes())
    with duckdb.connect(str(warehouse), read_only=True) as db:
        meta = read_meta(db)
        cells = read_rows(db, "SELECT * FROM cells ORDER BY ALL")
        scores = read_rows(db, SCORES)
        runs = read_rows(db, "SELECT * FROM runs ORDER BY cell, replicate")
        reference = _first_cell(cells, meta["reference"])
        target = _first_cell(cells, meta["target"])
        changed = read_changed(db, reference, target)
    reasons = {cell["cell"]: cell["reason"] for cell in cells if cell["reason"]}
    done = {run["cell"] for run in runs if run["outcome"] == "complete"}
    reasons |= {run["cell"]: run["reason"] for run in runs if run["cell"] not in done}
    verdict = say_verdict(rows, reference, target, reasons)
    return {
        "verdict": verdict,
        "split": split,
        "reference": reference,
        "target": target,
        "devices": meta["devices"],
        "cells": [_describe(cell, scores, runs, reasons) for cell in cells],
        "pairs": _pairs(rows, reference),
        "floors": _floors(rows),
        "statistics": PAIR_STATISTICS,
        "changed": changed,
        "differences": _differences(runs, reference, target),
        "runs": runs,
    }


def _first_cell(cells: list[dict[str, Any]], name: str) -> str:
    return next(str(cell["cell"]) for cell in cells if short(cell["cell"]) == name)


def _describe(
    cell: dict[str, Any],
    scores: list[dict[str, Any]],
    runs: list[dict[str, Any]],
    reasons: dict[str, str],
) -> dict[str, Any]:
    own = [s for s in scores if s["cell"] == cell["cell"] and s["replicate"] == 0 and s["task"]]
    outcomes = [run["outcome"] for run in runs if run["cell"] == cell["cell"]]
    state = "excluded" if cell["state"] == "excluded" else "/".join(sorted(set(outcomes)))
    return {**cell, "state": state, "scores": own, "reason": reasons.get(cell["cell"])}


def _pairs(rows: list[dict[str, Any]], reference: str) -> list[dict[str, Any]]:
    """One entry a cell compared with the reference, over all tasks."""
    others = dict.fromkeys(r["cell_b"] for r in rows if r["cell_a"] == reference != r["cell_b"])
    return [
        {"cell": other, **{name: find(rows, reference, other, name) for name in PAIR_STATISTICS}}
        for other in others
    ]


def _floors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry a replicated cell: how often its replicates differ."""
    cells = dict.fromkeys(r["cell_a"] for r in rows if r["cell_a"] == r["cell_b"])
    return [
        {
            "cell": cell,
            **{n: find(rows, cell, cell, n) for n in ("churn_tokens", "bitwise_equal_logits")},
        }
        for cell in cells
    ]


def _differences(
    runs: list[dict[str, Any]], reference: str, target: str
) -> list[tuple[str, str, str]]:
    """Return (key, reference's value, target's value) of all that differs in what ran."""
    flat = []
    for cell in (reference, target):
        run = next((r for r in runs if r["cell"] == cell and r["options"]), None)
        record: dict[str, Any] = {}
        if run is not None:
            record = {"identity": run["identity"], **json.loads(run["options"])}
            record["environment"] = json.loads(run["environment"])
        flat.append(_flatten(record))
    keys = sorted(set(flat[0]) | set(flat[1]))
    found = [(key, flat[0].get(key, "–"), flat[1].get(key, "–")) for key in keys]
    return [entry for entry in found if entry[1] != entry[2]]


def _flatten(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        flat: dict[str, str] = {}
        for key, inner in value.items():
            flat |= _flatten(inner, f"{prefix}.{key}" if prefix else str(key))
        return flat
    return {prefix: str(value)[:300]}
