"""The verdict says what the numbers allow, and refuses with the reason otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from sameweights.report.advice import Hole
from sameweights.report.tables import Comparison
from sameweights.report.verdict import say_verdict

A, B = "m/a/torch/bf16/s0", "m/b/torch/w8a16/s0"


def table(
    delta: tuple[float, float, float] = (-0.05, -0.08, -0.02),
    churn: tuple[float, float, float] = (0.2, 0.15, 0.26),
    floor: tuple[float | None, float | None] = (0.0, 0.01),
    n: int = 200,
) -> Comparison:
    values: dict[str, tuple[float, float, float]] = {
        "delta": delta,
        "churn_tokens": churn,
        "score_a": (0.5, 0.4, 0.6),
        "score_b": (0.5 + delta[0], 0.4, 0.6),
        "right_to_wrong": (0.1, 0.05, 0.15),
        "wrong_to_right": (0.05, 0.02, 0.1),
    }
    pair = {"cell_a": A, "cell_b": B, "task": "all", "filter": "", "metric": ""}
    rows = [
        {
            **pair,
            "statistic": name,
            "n": n,
            "n_planned": 200,
            **dict(zip(("estimate", "lo", "hi"), value, strict=True)),
            "noise_floor": floor[0],
            "noise_floor_hi": floor[1],
        }
        for name, value in values.items()
    ]
    return Comparison(rows)


def headline(**changes: Any) -> str:
    return say_verdict(table(**changes), None, A, B, {}).headline


def term(name: str, value: float | None, p: float = 0.001) -> dict[str, Any]:
    interval = None if value is None else [value - 0.01, value + 0.01]
    return {
        "name": name,
        "estimate": value,
        "interval": interval,
        "excludes_zero": interval is not None and interval[0] * interval[1] > 0,
        "p_holm": p,
    }


def outcome(name: str, *terms: dict[str, Any], total: float = -0.05, **more: Any) -> dict[str, Any]:
    return {
        "outcome": name,
        "identified": True,
        "total": term("total", total),
        "headline": list(terms),
        "blocks": [],
        "next_cells": [],
        **more,
    }


@pytest.mark.parametrize(
    ("delta", "says"),
    [
        ((-0.05, -0.08, -0.02), "The drop of 5.0 points is real"),
        ((0.05, 0.02, 0.08), "The gain of 5.0 points is real"),
        ((-0.02, -0.05, 0.01), "No evidence of a score change"),
        ((0.0, None, None), "Too few items to judge the score"),
    ],
)
def test_score_is_judged_by_its_interval(delta: tuple[float, float, float], says: str) -> None:
    assert headline(delta=delta).startswith(says)


@pytest.mark.parametrize(
    ("floor", "says"),
    [
        ((0.0, 0.01), "a rerun of a cell changes none"),
        ((0.05, 0.09), "more than the 5.0% that a rerun changes"),
        ((0.12, 0.17), "not clearly more than a rerun changes (12.0%)"),
        ((None, None), "without replicates nobody can say"),
    ],
)
def test_churn_is_judged_by_the_noise_floor(
    floor: tuple[float | None, float | None], says: str
) -> None:
    assert says in headline(floor=floor)


def test_no_change_is_said_plainly() -> None:
    assert headline(churn=(0.0, 0.0, 0.02)).endswith("no answer changed.")


def test_numbers_have_intervals_counts_and_coverage() -> None:
    detail = say_verdict(table(n=190), None, A, B, {}).detail
    assert "-5.0 points [-8.0, -2.0] on 190 of 200 planned items" in detail
    assert "19 lost [5.0%, 15.0%]" in detail and "38 answers differ, 20.0% [15.0%, 26.0%]" in detail
    assert "on similar items at most 1.0%" in detail


def test_cell_without_results_is_a_refusal_with_reason_and_next_step() -> None:
    found = say_verdict(table(), None, A, B, {B: Hole("failed", "canary: no answer")})
    assert found.headline == "No verdict: b/torch/w8a16 gave no results."
    assert "canary: no answer" in found.line and "Run b/torch/w8a16 next" in found.line


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("stopped", "was stopped, and the same run again ends the same way: make it pass"),
        ("excluded", "is excluded, and the same run again ends the same way: take it into"),
        ("refused", "was refused, and the same run again ends the same way: sign or replace"),
    ],
)
def test_nobody_is_sent_to_run_what_would_end_the_same_way(state: str, says: str) -> None:
    found = say_verdict(table(), None, A, B, {B: Hole(state, "canary: wrong")})
    assert found.headline == "No verdict: b/torch/w8a16 gave no results."
    assert "canary: wrong" in found.line and says in found.cause
    assert "next" not in found.line and "compare with another cell" in found.cause


def test_only_established_terms_are_called_a_cause() -> None:
    score = outcome("score", term("device", -0.01, 0.4), term("precision", -0.04))
    cause = say_verdict(table(), {"outcomes": {"score": score}}, A, B, {}).cause
    assert cause.startswith("Cause of the score: precision. In points: device -1.0")
    weak = outcome("score", term("device", -0.02, 0.3), term("precision", -0.03, 0.2))
    cause = say_verdict(table(), {"outcomes": {"score": weak}}, A, B, {}).cause
    assert cause.startswith("No single cause of the score is established.")


def test_overlap_of_changed_answers_is_no_cause() -> None:
    churn = outcome("churn_tokens", term("device", 0.2), term("interaction", -0.1), total=0.1)
    score = outcome("score", total=0.0)
    cause = say_verdict(
        table(), {"outcomes": {"score": score, "churn_tokens": churn}}, A, B, {}
    ).cause
    assert cause.startswith("Cause of the changed answers: device. ")


def test_unidentified_split_names_what_is_known_and_the_next_cell() -> None:
    split = outcome(
        "score",
        term("device", None),
        identified=False,
        blocks=[term("device+backend", -0.05)],
        next_cells=[{"cell": "m/b/torch/bf16"}],
    )
    cause = say_verdict(table(), {"outcomes": {"score": split}}, A, B, {}).cause
    assert "cannot split the score" in cause and "device+backend -5.0" in cause
    assert "Run b/torch/bf16 next" in cause


def test_a_stopped_cell_is_not_advised_and_the_next_best_is() -> None:
    ranked = [{"cell": "m/b/torch/bf16"}, {"cell": "m/a/torch/w8a16"}]
    split = outcome("score", identified=False, next_cells=ranked)
    stopped = {"m/b/torch/bf16/s0": Hole("stopped", "canary: 4 nats")}

    def cause(holes: dict[str, Hole]) -> str:
        return say_verdict(table(), {"outcomes": {"score": split}}, A, B, holes).cause

    assert "Run a/torch/w8a16 next. b/torch/bf16 would tell too, but was stopped: canary" in cause(
        stopped
    )
    both = stopped | {"m/a/torch/w8a16/s0": Hole("excluded", "too slow")}
    assert "Run" not in cause(both) and "No cell that can run tells more" in cause(both)


def test_missing_or_failed_attribution_is_said() -> None:
    assert say_verdict(table(), None, A, B, {}).cause == "By cause: not computed."
    assert "(no cell)" in say_verdict(table(), {"error": "no cell"}, A, B, {}).cause
