"""Changed items against a plain loop over the files of both cells."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from runner.contract import read_responses
from sameweights.changes import changed_items
from sameweights.metrics.divergence import first_difference
from sameweights.warehouse import build_warehouse

sys.path.insert(0, str(Path(__file__).parent / "report"))
from synthetic_results import Scenario, write_results

A, BW = "toy/dev-a/torch/bf16/s0", "toy/dev-b/torch/w8a16/s0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_results(tmp_path_factory.mktemp("results"), Scenario())
    build_warehouse(path, path / "warehouse.duckdb")
    return path


@pytest.fixture(scope="module")
def changed(folder: Path) -> list[dict[str, Any]]:
    return changed_items(folder / "warehouse.duckdb")


def read_items(folder: Path, cell: str) -> dict[tuple[str, int], dict[str, Any]]:
    frame = pl.read_parquet(folder / f"cells/{cell}/r0/items.parquet")
    rows = frame.filter(pl.col("metric") != "acc_norm").iter_rows(named=True)
    return {(row["task"], row["doc_id"]): row for row in rows}


def test_items_of_reference_and_target_equal_a_plain_loop(
    folder: Path, changed: list[dict[str, Any]]
) -> None:
    ours, theirs = read_items(folder, A), read_items(folder, BW)
    expected = {k for k in ours if ours[k]["answer_tokens"] != theirs[k]["answer_tokens"]}
    found = {(row["task"], row["doc_id"]): row for row in changed if row["cell_b"] == BW}
    assert expected and set(found) == expected
    names = {(1.0, 0.0): "right->wrong", (0.0, 1.0): "wrong->right"}
    for key, row in found.items():
        values = (ours[key]["value"], theirs[key]["value"])
        assert row["change"] == names.get(values, "same score")
        assert (row["text_a"], row["text_b"]) == (
            ours[key]["answer_text"],
            theirs[key]["answer_text"],
        )
        n, one, other = row["common_prefix"], row["text_a"], row["text_b"]
        assert one[:n] == other[:n] and one[n : n + 1] != other[n : n + 1]


def test_divergence_and_candidates_come_from_the_token_ids(
    folder: Path, changed: list[dict[str, Any]]
) -> None:
    sides = [
        {r.request_id: r for r in read_responses(folder / f"cells/{cell}/r0/responses.jsonl")}
        for cell in (A, BW)
    ]
    ids = {
        key[1]: row["request_ids"][0]
        for key, row in read_items(folder, A).items()
        if key[0] == "arith"
    }
    rows = [row for row in changed if row["cell_b"] == BW and row["task"] == "arith"]
    assert rows
    for row in rows:
        one, other = (side[ids[row["doc_id"]]] for side in sides)
        index = first_difference(one.token_ids or [], other.token_ids or [])
        assert index is not None and row["divergence_index"] == index
        assert row["margin"] == (one.margins or [])[index]
        assert row["top_ids_a"] == (one.top_ids or [])[index]
        assert row["top_ids_b"] == (other.top_ids or [])[index]
        assert row["top_logprobs_b"] == pytest.approx((other.top_logprobs or [])[index])
        assert row["prompt"] == f"Question {row['doc_id']} of arith?"


def test_choice_has_the_margin_of_the_reference_and_no_token(
    folder: Path, changed: list[dict[str, Any]]
) -> None:
    ours = read_items(folder, A)
    rows = [row for row in changed if row["task"] == "choice"]
    assert rows
    for row in rows:
        assert row["divergence_index"] is None and row["top_ids_a"] is None
        assert row["margin"] == ours["choice", row["doc_id"]]["margin"] and len(row["choices"]) == 4


def test_target_comes_first_and_in_it_the_changed_scores(changed: list[dict[str, Any]]) -> None:
    cells = [row["cell_b"] for row in changed]
    n = cells.count(BW)
    assert set(cells[:n]) == {BW} and len(set(cells)) == 3
    same = [row["change"] == "same score" for row in changed[:n]]
    assert same == sorted(same) and 0 < sum(same) < n
    assert {row["cell_a"] for row in changed} == {A}


def test_limit_keeps_the_first(folder: Path, changed: list[dict[str, Any]]) -> None:
    assert changed_items(folder / "warehouse.duckdb", limit=3) == changed[:3]
