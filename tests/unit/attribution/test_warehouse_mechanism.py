"""Mechanism from stored evidence: simulated tokens with a known tau."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from attribution_tables import table_of

from sameweights.attribution.api import attribute
from sameweights.attribution.warehouse_mechanism import add_mechanism, gap_of

CELLS = ["m/a/t/p", "m/b/t/p", "m/a/t/q", "m/b/t/q"]
FACTORS = ("model", "device", "backend", "precision")
TAU = {"m/a/t/p": 0.0, "m/b/t/p": 0.05, "m/a/t/q": 0.3, "m/b/t/q": 0.3}


def responses(n: int = 300, length: int = 20) -> list[dict[str, Any]]:
    """Three candidates a token; a cell adds noise of its tau to the gap of the best two."""
    rng = np.random.default_rng(1)
    gaps = rng.exponential(1.5, (n, length))
    rows = []
    for cell in CELLS:
        moved = gaps + rng.normal(0, TAU[cell], gaps.shape)
        for k in range(n):
            ids = [[1, 2, 3] if gap > 0 else [2, 1, 3] for gap in moved[k]]
            logs = [[-0.1, -0.1 - abs(gap), -9.0] for gap in moved[k]]
            rows.append(
                {
                    "cell": f"{cell}/s0",
                    "replicate": 0,
                    "request_id": f"r{k:04}",
                    "status": "ok",
                    "token_ids": [pair[0] for pair in ids],
                    "top_ids": ids,
                    "top_logprobs": logs,
                }
            )
    return rows


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    path = tmp_path / "w.duckdb"
    frame = pl.DataFrame(responses())
    with duckdb.connect(str(path)) as db:
        db.register("frame", frame)
        db.execute("CREATE TABLE responses AS SELECT * FROM frame")
    return path


def test_tau_flips_and_churn_are_found_again(warehouse: Path) -> None:
    table = table_of({cell: np.arange(30) % 2 for cell in CELLS}, factors=FACTORS)
    found = add_mechanism(warehouse, attribute(table, CELLS[0], CELLS[3], outcomes=["score"]))
    by_player = {pair.player: pair for pair in found.mechanism}
    assert set(by_player) == {"device", "precision", "total"}
    for player, tau in (("device", 0.05), ("precision", 0.3), ("total", 0.3)):
        pair = by_player[player]
        assert pair.tau_nats == pytest.approx(tau, rel=0.08)
        assert pair.observed_flips == pytest.approx(pair.predicted_flips, rel=0.25)
        assert pair.expected_churn == pytest.approx(pair.observed_churn, rel=0.2)
        assert pair.answers == 300
    assert by_player["device"].too_wide == pytest.approx(0.0, abs=0.05)
    assert (by_player["precision"].too_wide or 0) > 0.1
    record = found.to_dict()["mechanism"]
    assert record[0]["tau_nats"] == by_player["device"].tau_nats


def test_without_evidence_there_is_no_mechanism(tmp_path: Path) -> None:
    path = tmp_path / "empty.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE items (x INT)")
    table = table_of({cell: np.arange(30) % 2 for cell in CELLS}, factors=FACTORS)
    found = attribute(table, CELLS[0], CELLS[3], outcomes=["score"])
    assert add_mechanism(path, found).mechanism == ()


def test_gap_needs_both_tokens() -> None:
    assert gap_of([1, 2], [2, 1, 5], [-0.5, -1.0, -3.0]) == pytest.approx(-0.5)
    assert gap_of([1, 9], [2, 1, 5], [-0.5, -1.0, -3.0]) is None
