"""The waterfall adds up, and open terms are drawn as their bounds."""

from __future__ import annotations

from typing import Any

import pytest
import vl_convert

from sameweights.report.charts import (
    draw_churn_against_delta,
    draw_margins,
    draw_waterfall,
    margin_rows,
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


def test_every_margin_is_counted_once() -> None:
    margins = [0.0, 0.01, 0.5, 2.9, 3.0, 80.0, None]
    counts = {row["margin"]: row["items"] for row in margin_rows([{"margin": m} for m in margins])}
    assert counts == {
        "exact tie": 1,
        "0 – 0.01": 0,
        "0.01 – 0.03": 1,
        "0.03 – 0.1": 0,
        "0.1 – 0.3": 0,
        "0.3 – 1": 1,
        "1 – 3": 1,
        "≥ 3": 2,
    }


def test_smallest_margin_above_a_tie_is_no_tie() -> None:
    rows = margin_rows([{"margin": 5e-324}, {"margin": 0.0}, {"margin": 0.0}])
    assert [row["items"] for row in rows[:2]] == [2, 1]


@pytest.mark.parametrize(
    "spec",
    [draw_waterfall("w", "Score", 3, 0.01), draw_churn_against_delta(), draw_margins()],
)
def test_specifications_compile_and_describe_themselves(spec: dict[str, Any]) -> None:
    assert spec["description"]
    assert vl_convert.vegalite_to_vega(spec)["marks"]
