"""The plot of all pairs stays bounded, and says how many pairs it leaves out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from sameweights.report import pairs
from sameweights.report.tables import Comparison

CELLS = [f"m/d{n}/torch/fp32/s0" for n in range(5)]


def comparison() -> Comparison:
    rows: list[dict[str, Any]] = [
        {
            "cell_a": a,
            "cell_b": b,
            "task": "all",
            "filter": "",
            "metric": "",
            "statistic": name,
            "n": 50,
            "estimate": 0.02,
            "lo": -0.04,
            "hi": 0.08,
        }
        for a, b in combinations(CELLS, 2)
        for name in ("delta", "churn_tokens")
    ]
    return Comparison(rows)


def test_all_pairs_are_points() -> None:
    points, left_out = pairs.choose_points(comparison(), CELLS[:1])
    assert (len(points), left_out) == (10, 0)
    assert points[0]["cells"] == (CELLS[0], CELLS[1])
    assert points[0]["delta"]["statistic"] == "delta"
    assert points[0]["churn"]["statistic"] == "churn_tokens"
    assert [p["against"] for p in points].count("the reference") == 4


def test_beyond_the_limit_pairs_with_the_reference_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MAX_POINTS", 9)
    points, left_out = pairs.choose_points(comparison(), CELLS[:1])
    assert {p["against"] for p in points} == {"the reference"}
    assert (len(points), left_out) == (4, 6)
