"""Divergence and agreement by position, against scipy and a count by hand."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from synthetic_results import write_results

from runner.contract import read_responses
from sameweights.report.agreement import read_agreement
from sameweights.report.rows import agreement_places
from sameweights.warehouse import build_warehouse

REFERENCE, TARGET = "toy/dev-a/torch/bf16/s0", "toy/dev-b/torch/w8a16/s0"
VOCABULARY, TOP = 12, 4

logits = st.lists(st.floats(-8, 8, width=32), min_size=VOCABULARY, max_size=VOCABULARY)


def _log_softmax(values: list[float]) -> np.ndarray:
    found = np.array(values, dtype=np.float64)
    return found - np.logaddexp.reduce(found)


def _stored(db: duckdb.DuckDBPyConnection, sides: dict[str, np.ndarray], top: int) -> None:
    db.execute("CREATE TABLE requests AS SELECT 'r' AS request_id, 't' AS task, 0 AS doc_id")
    db.execute(
        "CREATE TABLE responses (request_id TEXT, cell TEXT, replicate INT, status TEXT,"
        " token_ids BIGINT[], top_ids BIGINT[][], top_logprobs DOUBLE[][])"
    )
    db.execute("CREATE MACRO first_difference(a, b) AS CASE WHEN a <> b THEN 0 END")
    for cell, logs in sides.items():
        best = np.argsort(-logs, kind="stable")[:top]
        row = ["r", cell, 0, "ok", None, [best.tolist()], [logs[best].tolist()]]
        db.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _kld(sides: dict[str, np.ndarray], top: int) -> tuple[float, int]:
    with duckdb.connect() as db:
        _stored(db, sides, top)
        ((*_, differs, kld),) = db.execute(agreement_places("a", "b", (0, 0))).fetchall()
    return kld, differs


@settings(deadline=None, max_examples=60)
@given(logits, logits)
def test_divergence_of_stored_candidates_is_scipys_and_a_lower_bound(
    one: list[float], other: list[float]
) -> None:
    p, q = _log_softmax(one), _log_softmax(other)
    whole = float(entropy(np.exp(p), np.exp(q)))
    full, differs = _kld({"a": p, "b": q}, VOCABULARY)
    assert full == pytest.approx(whole, abs=1e-6)
    assert differs == (np.argsort(-p, kind="stable")[0] != np.argsort(-q, kind="stable")[0])

    known = sorted(
        set(np.argsort(-p, kind="stable")[:TOP]) & set(np.argsort(-q, kind="stable")[:TOP])
    )
    pooled = [np.append(np.exp(x[known]), max(1 - np.exp(x[known]).sum(), 1e-6)) for x in (p, q)]
    # scipy would scale both to one, which the floor of the rest breaks by a millionth.
    oracle = float(np.sum(pooled[0] * np.log(pooled[0] / pooled[1])))
    some, _ = _kld({"a": p, "b": q}, TOP)
    assert some == pytest.approx(max(oracle, 0), abs=1e-9)
    assert some <= whole + 1e-5


def test_candidates_without_a_common_token_are_one_rest() -> None:
    p, q = np.log([0.6, 0.3, 0.05, 0.05]), np.log([0.05, 0.05, 0.3, 0.6])
    kld, differs = _kld({"a": p, "b": q}, 2)
    assert differs == 1 and kld == 0  # Nothing in common: the rest is everything in both.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_results(tmp_path_factory.mktemp("results"))
    build_warehouse(folder, folder / "warehouse.duckdb")
    return folder


def _by_hand(folder: Path, cells: tuple[str, str], runs: tuple[int, int]) -> dict[int, list[int]]:
    """Position -> whether the best token differs, of every request that both runs answered."""
    one, other = (
        {
            r.request_id: r
            for r in read_responses(folder / "cells" / cell / f"r{run}" / "responses.jsonl")
            if r.status == "ok" and r.top_ids
        }
        for cell, run in zip(cells, runs, strict=True)
    )
    found: dict[int, list[int]] = {}
    for key in sorted(one.keys() & other.keys()):
        a, b = one[key], other[key]
        for place in range(min(len(a.top_ids or ()), len(b.top_ids or ()))):
            if a.token_ids and b.token_ids and a.token_ids[:place] != b.token_ids[:place]:
                break
            found.setdefault(place, []).append(int(a.top_ids[place][0] != b.top_ids[place][0]))
    return found


def test_positions_are_those_with_the_same_text_before_them(folder: Path) -> None:
    oracle = _by_hand(folder, (REFERENCE, TARGET), (0, 0))
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        rows = db.execute(agreement_places(REFERENCE, TARGET, (0, 0))).fetchall()
        entries = read_agreement(db, REFERENCE, TARGET)
    found: dict[int, list[int]] = {}
    for _, _, position, differs, kld in rows:
        found.setdefault(position, []).append(differs)
        assert math.isfinite(kld) and kld >= 0
    assert {k: (len(v), sum(v)) for k, v in found.items()} == {
        k: (len(v), sum(v)) for k, v in oracle.items()
    }
    assert entries[0]["bin"] == "all" and entries[0]["positions"] == len(rows)
    assert sum(entry["positions"] for entry in entries[1:]) == len(rows)


def test_numbers_are_means_over_items_with_interval_and_floor(folder: Path) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        entries = read_agreement(db, REFERENCE, TARGET)
        assert len(entries) > 2
        for entry in entries:
            for column in ("differs", "kld"):
                number = entry[column]
                values = [row[-1] for row in db.execute(number["sql"]).fetchall()]
                assert len(values) == number["n"] <= number["n_planned"] == 40
                assert np.mean(values) == pytest.approx(number["estimate"])
                if number["lo"] is not None:
                    assert number["lo"] <= number["estimate"] <= number["hi"]
                assert number["noise_floor"] is not None
        same = read_agreement(db, REFERENCE, REFERENCE)
    assert same[0]["differs"]["estimate"] == same[0]["kld"]["estimate"] == 0


def test_cell_without_candidates_has_no_agreement(folder: Path) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        assert read_agreement(db, REFERENCE, "toy/dev-c/torch/bf16/s0") == []
