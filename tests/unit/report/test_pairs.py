"""The plot of all pairs stays bounded, and says how many pairs it leaves out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from sameweights.report import pairs
from sameweights.report.tables import Comparison

CELLS = [f"m/d{n}/torch/fp32/s0" for n in range(5)]


def comparison(lo: float | None = -0.04) -> Comparison:
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
            "lo": lo,
            "hi": None if lo is None else 0.08,
        }
        for a, b in combinations(CELLS, 2)
        for name in ("delta", "churn_tokens")
    ]
    return Comparison(rows)


def test_all_pairs_are_points_in_percent() -> None:
    points, left_out = pairs.choose_points(comparison(), CELLS[:1])
    assert (len(points), left_out) == (10, 0)
    assert points[0]["pair"] == "d0/torch/fp32 → d1/torch/fp32"
    assert points[0]["delta"] == pytest.approx(2) and points[0]["churn_hi"] == pytest.approx(8)
    assert [p["against"] for p in points].count("the reference") == 4


def test_beyond_the_limit_pairs_with_the_reference_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MAX_POINTS", 9)
    points, left_out = pairs.choose_points(comparison(), CELLS[:1])
    assert {p["against"] for p in points} == {"the reference"}
    assert (len(points), left_out) == (4, 6)


def test_missing_interval_stays_missing() -> None:
    points, _ = pairs.choose_points(comparison(lo=None), CELLS[:1])
    assert all(p["delta_lo"] is None and p["churn_hi"] is None for p in points)
