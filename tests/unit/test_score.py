"""Scoring rules: what was not measured is never scored, and a NaN is never correct."""

from __future__ import annotations

from typing import Any

import pytest

from runner.contract import Response
from sameweights.score import item_rows

DOCUMENT = {
    "request_ids": ["a", "b"],
    "kind": "loglikelihood",
    "choices": [" no", " yes indeed"],
}


def sample(lls: list[float], **metrics: Any) -> dict[str, Any]:
    return {
        "doc_id": 3,
        "filter": "none",
        "target": "1",
        "doc_hash": "d",
        "prompt_hash": "p",
        "filtered_resps": [(ll, False) for ll in lls],
        "arguments": [("q", c) for c in DOCUMENT["choices"]],
        "metrics": list(metrics),
        **metrics,
    }


RESPONSES = {i: Response(i, "ok", loglikelihood=-1.0, is_greedy=False) for i in "ab"}


def test_choice_depends_on_the_metric() -> None:
    rows = item_rows("t", sample([-2.0, -3.0], acc=0.0, acc_norm=1.0), DOCUMENT, RESPONSES, None)
    by_metric = {row["metric"]: row for row in rows}
    assert by_metric["acc"]["answer_extracted"] == "0"
    assert by_metric["acc"]["margin"] == pytest.approx(1.0)
    # Per character: -2/3 against -3/11.
    assert by_metric["acc_norm"]["answer_extracted"] == "1"
    assert by_metric["acc_norm"]["value"] == 1.0


def test_tie_takes_the_first_best_choice_and_is_marked() -> None:
    (row,) = item_rows("t", sample([-2.0, -2.0], acc=1.0), DOCUMENT, RESPONSES, None)
    assert (row["answer_extracted"], row["is_tie"], row["margin"]) == ("0", True, 0.0)


def test_nan_choice_is_an_error_whatever_lm_eval_wrote() -> None:
    (row,) = item_rows("t", sample([float("nan"), -2.0], acc=1.0), DOCUMENT, RESPONSES, None)
    assert row["status"] == "error"
    assert "value" not in row
    (row,) = item_rows("t", sample([-1.0, -2.0], acc=float("nan")), DOCUMENT, RESPONSES, None)
    assert row["status"] == "error"


@pytest.mark.parametrize("status", ["missing", "error", "timeout", "truncated"])
def test_unmeasured_item_keeps_its_status_and_no_value(status: str) -> None:
    rows = item_rows("t", sample([0.0, 0.0], acc=1.0), DOCUMENT, {}, (status, "because"))
    assert [(r["status"], r["reason"], r.get("value")) for r in rows] == [(status, "because", None)]


def test_pair_metric_is_left_out() -> None:
    rows = item_rows("t", sample([-1.0, -2.0], acc=1.0, f1=(1, 0)), DOCUMENT, RESPONSES, None)
    assert [row["metric"] for row in rows] == ["acc"]


def test_generated_answer_keeps_text_extraction_and_finish_reason() -> None:
    response = Response("a", "ok", token_ids=[5, 6], text="it is 12", finish_reason="length")
    generated = {
        **sample([]),
        "filtered_resps": ["12"],
        "metrics": ["exact_match"],
        "exact_match": 1.0,
    }
    document = {"request_ids": ["a"], "kind": "generate", "choices": None}
    (row,) = item_rows("t", generated, document, {"a": response}, None)
    assert (row["answer_text"], row["answer_extracted"]) == ("it is 12", "12")
    assert (row["finish_reason"], row["value"], row["status"]) == ("length", 1.0, "ok")


def test_empty_answer_is_an_answer() -> None:
    response = Response("a", "ok", token_ids=[2], text="", finish_reason="eos")
    generated = {**sample([]), "filtered_resps": ["[invalid]"], "metrics": ["em"], "em": 0.0}
    document = {"request_ids": ["a"], "kind": "generate", "choices": None}
    (row,) = item_rows("t", generated, document, {"a": response}, None)
    assert (row["status"], row["value"], row["answer_text"]) == ("ok", 0.0, "")


def test_lone_surrogate_is_stored_as_its_escape() -> None:
    response = Response("a", "ok", token_ids=[2], text="x\ud800", finish_reason="eos")
    generated = {**sample([]), "filtered_resps": ["x\ud800"], "metrics": ["em"], "em": 0.0}
    document = {"request_ids": ["a"], "kind": "generate", "choices": None}
    (row,) = item_rows("t", generated, document, {"a": response}, None)
    assert row["answer_text"] == row["answer_extracted"] == "x\\ud800"
