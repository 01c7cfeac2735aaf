"""What one item contributes to each statistic, by hand: the SQL over two runs side by side."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pytest

from sameweights.paired import VIEWS, pair_query

A, B = "m/d/t/a/s0", "m/d/t/b/s0"

SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("cell", "task", "filter", "metric", "status"), pl.String),
    **dict.fromkeys(("replicate", "doc_id"), pl.Int64),
    **dict.fromkeys(("value", "margin"), pl.Float64),
    **dict.fromkeys(("answer_tokens", "answer_text", "answer_extracted"), pl.String),
    "logits_sha256": pl.String,
    "token_ids": pl.List(pl.Int64),
    "margins": pl.List(pl.Float32),
}
NAMES = {"task": "t", "filter": "f", "metric": "m", "status": "ok", "replicate": 0, "doc_id": 0}


def one_item(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of one item from the replicates of two cells."""
    rows = [
        {**NAMES, **row, "cell": cell, "replicate": n}
        for cell, side in ((A, left), (B, right))
        for n, row in enumerate(side)
    ]
    with duckdb.connect() as db:
        db.execute(VIEWS[VIEWS.index("CREATE MACRO") :])
        db.register("rows", pl.DataFrame(rows, schema=SCHEMA))
        pairs = f"(SELECT 7 AS pair, '{A}' AS cell_a, '{B}' AS cell_b)"
        (found,) = db.sql(pair_query(pairs, "rows", "rows")).pl().to_dicts()
    return dict(found)


def test_one_replicate_each() -> None:
    ours = {"value": 1.0, "answer_tokens": "x", "answer_text": "1", "answer_extracted": None}
    theirs = {"value": 0.0, "answer_tokens": "y", "answer_text": "1", "answer_extracted": "1"}
    found = one_item([{**ours, "logits_sha256": "h"}], [{**theirs, "logits_sha256": "g"}])
    assert (found["score_a"], found["score_b"], found["delta"]) == (1.0, 0.0, -1.0)
    assert (found["right_to_wrong"], found["wrong_to_right"]) == (1.0, 0.0)
    assert (found["churn_tokens"], found["churn_text"]) == (1.0, 0.0)
    # A missing extraction is another answer, not a hole.
    assert found["churn_extracted"] == 1.0
    assert found["bitwise_equal_logits"] == 0.0


def test_numbers_are_means_over_the_pairs_of_replicates() -> None:
    right, wrong = {"value": 1.0, "answer_tokens": "x"}, {"value": 0.0, "answer_tokens": "y"}
    found = one_item([right, right], [right, wrong])
    assert (found["score_a"], found["score_b"], found["delta"]) == (1.0, 0.5, -0.5)
    assert (found["right_to_wrong"], found["churn_tokens"]) == (0.5, 0.5)
    assert (found["replicate_pairs"], found["shown_replicate_b"]) == (4, 0)
    found = one_item([right, wrong], [wrong, right, right])
    assert found["score_b"] == pytest.approx(2 / 3)
    assert found["right_to_wrong"] == pytest.approx(1 / 6)
    assert found["wrong_to_right"] == pytest.approx(2 / 6)
    assert found["delta"] == pytest.approx(found["wrong_to_right"] - found["right_to_wrong"])


@pytest.mark.parametrize(
    ("left", "right", "index"),
    [
        ([1, 2], [1, 2], None),
        ([1, 2], [1, 3], 1),
        ([1], [1, 2], 1),
        ([5], [6], 0),
        ([1, 2], [], 0),
        ([], [1], 0),
        (None, [1], None),
    ],
)
def test_answers_part_at_the_first_token_that_differs(
    left: list[int] | None, right: list[int] | None, index: int | None
) -> None:
    sides = [
        {"token_ids": ids, "margins": [3.0, 0.25, 1.0], "answer_tokens": str(ids)}
        for ids in (left, right)
    ]
    found = one_item([sides[0]], [sides[1]])
    assert found["mean_divergence_index"] == index
    expected = None if index is None else [3.0, 0.25, 1.0][index]
    assert found["mean_margin_at_divergence"] == expected


def test_choice_counts_with_its_own_margin_only_where_it_differs() -> None:
    ours, same, other = ({"answer_tokens": a, "margin": 0.5} for a in "xxy")
    assert one_item([ours], [same])["mean_margin_at_divergence"] is None
    found = one_item([ours], [other])
    assert (found["mean_margin_at_divergence"], found["mean_divergence_index"]) == (0.5, None)


def test_one_failed_replicate_fails_the_item() -> None:
    ok = {"value": 1.0}
    found = one_item([ok, ok], [ok, {"status": "timeout"}])
    assert found["status"] == "timeout"
    assert one_item([ok], [ok])["status"] == "ok"


def test_graded_values_are_told_from_right_and_wrong() -> None:
    assert one_item([{"value": 1.0}], [{"value": 0.0}])["is_binary"]
    assert not one_item([{"value": 1.0}], [{"value": 0.5}])["is_binary"]


def test_unknown_logits_are_not_called_equal() -> None:
    assert one_item([{}], [{}])["bitwise_equal_logits"] is None
