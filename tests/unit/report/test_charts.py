"""The waterfall adds up, and open terms are drawn as their bounds."""

from __future__ import annotations

from typing import Any

import pytest
import vl_convert

from sameweights.report.charts import (
    draw_churn_against_delta,
    draw_waterfall,
    point_row,
    waterfall_rows,
)


def term(name: str, value: float | None, interval: list[float] | None = None) -> dict[str, Any]:
    return {"name": name, "estimate": value, "interval": interval, "bounds": [-0.2, 0.1]}


def outcome(identified: bool, *terms: dict[str, Any]) -> dict[str, Any]:
    total = term("total", -0.05, [-0.08, -0.02])
    shared = {"outcome": "score", "identified": identified, "total": total}
    return {**shared, "headline": list(terms), "blocks": list(terms)}


def test_steps_lead_from_zero_to_the_total() -> None:
    rows = waterfall_rows(
        outcome(True, term("device", 0.02, [0.01, 0.03]), term("precision", -0.07, [-0.1, -0.04]))
    )
    assert [row["start"] for row in rows] == pytest.approx([0, 2, 0])
    assert [row["end"] for row in rows] == pytest.approx([2, -5, -5])
    assert [row["lo"] for row in rows] == pytest.approx([1, -8, -8])
    assert [row["kind"] for row in rows] == ["gain", "loss", "total"]
    assert [row["label"] for row in rows] == ["+2.0", "-7.0", "-5.0"]


def test_open_term_is_drawn_as_its_bounds() -> None:
    row = waterfall_rows(outcome(False, term("backend", None)))[0]
    assert (row["start"], row["end"], row["label"]) == (-20.0, 10.0, "not known")
    assert row["term"] == "backend (bounds)" and row["lo"] is None


def test_a_point_is_in_percent_and_a_missing_interval_stays_missing() -> None:
    delta = {"n": 50, "estimate": 0.02, "lo": -0.04, "hi": 0.08}
    churn = {"n": 50, "estimate": 0.3, "lo": None, "hi": None}
    cells = ("m/d0/torch/fp32/s0", "m/d1/torch/fp32/s0")
    row = point_row({"cells": cells, "against": "x", "delta": delta, "churn": churn})
    assert row["pair"] == "d0/torch/fp32 → d1/torch/fp32" and row["n"] == 50
    assert [row[k] for k in ("delta", "delta_lo", "delta_hi")] == pytest.approx([2, -4, 8])
    assert row["churn"] == pytest.approx(30) and row["churn_lo"] is row["churn_hi"] is None


@pytest.mark.parametrize(
    "spec",
    [draw_waterfall("w", "Score", 3, 0.01), draw_churn_against_delta()],
)
def test_specifications_compile_and_describe_themselves(spec: dict[str, Any]) -> None:
    assert spec["description"]
    assert vl_convert.vegalite_to_vega(spec)["marks"]
