"""Statistics of a pair against scipy and by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sameweights.metrics import Pair, mean, measure_all, proportion
from sameweights.metrics.divergence import first_difference


def make_pair(a: list[float], b: list[float]) -> Pair:
    n = len(a)
    frame = pl.DataFrame(
        {
            "task": ["t"] * n,
            "value": a,
            "value_b": b,
            "mean_value": a,
            "mean_value_b": b,
            "answer_tokens": [f"x{v}" for v in a],
            "answer_tokens_b": [f"x{v}" for v in b],
            "answer_text": ["same"] * n,
            "answer_text_b": ["same"] * n,
            "answer_extracted": [str(v) for v in a],
            "answer_extracted_b": [None] + [str(v) for v in b[1:]],
            "logits": [["h"]] * n,
            "logits_b": [["h"]] + [["g"]] * (n - 1),
            "token_ids": [[1, 2, 3]] * n,
            "token_ids_b": [[1, 2, 3]] * (n - 1) + [[1, 9]],
            "margins": [[3.0, 0.25, 1.0]] * n,
            "margin": [None] * n,
        },
        schema_overrides={"margin": pl.Float64},
    )
    return Pair(frame, n + 1)


def test_every_statistic_of_a_small_pair() -> None:
    a, b = [1.0, 1.0, 0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    found = {s.name: s for s in measure_all(make_pair(a, b))}
    assert found["delta"].estimate == pytest.approx(-2 / 6)
    assert found["right_to_wrong"].estimate == pytest.approx(3 / 6)
    assert found["wrong_to_right"].estimate == pytest.approx(1 / 6)
    assert found["churn_tokens"].estimate == pytest.approx(4 / 6)
    assert found["churn_text"].estimate == 0.0
    # A missing extraction is another answer, not a hole.
    assert found["churn_extracted"].estimate == pytest.approx(5 / 6)
    assert found["bitwise_equal_logits"].estimate == pytest.approx(1 / 6)
    assert found["mean_divergence_index"].estimate == 1.0
    assert found["mean_margin_at_divergence"].estimate == 0.25
    mid_p = stats.binomtest(1, 4).pvalue - stats.binom.pmf(1, 4, 0.5)
    assert found["mcnemar_mid_p"].estimate == pytest.approx(mid_p)


def test_delta_interval_holds_the_estimate() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2, (2, 50)).astype(float)
    (delta,) = [s for s in measure_all(make_pair(list(a), list(b))) if s.name == "delta"]
    assert delta.lo is not None and delta.hi is not None
    assert delta.lo < (b - a).mean() < delta.hi


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (3, 20), (20, 20)])
def test_proportion_has_wilsons_interval(hits: int, n: int) -> None:
    found = proportion("p", np.arange(n) < hits)
    oracle = stats.binomtest(hits, n).proportion_ci(method="wilson")
    assert (found.lo, found.hi) == pytest.approx((oracle.low, oracle.high))


def test_no_items_is_no_number() -> None:
    found = proportion("p", np.zeros(0, dtype=bool))
    assert (found.n, found.estimate, found.lo) == (0, None, None)


@pytest.mark.parametrize(
    ("left", "right", "index"),
    [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ([5], [6], 0)],
)
def test_first_difference(left: list[int], right: list[int], index: int | None) -> None:
    assert first_difference(left, right) == index


def test_mean_has_students_interval_cut_at_zero() -> None:
    values = np.array([0.5, 1.5, 4.0, 2.0])
    found = mean("m", values)
    oracle = stats.t.interval(0.95, 3, loc=2.0, scale=stats.sem(values))
    assert (found.estimate, found.lo, found.hi) == (
        2.0,
        max(0.0, oracle[0]),
        pytest.approx(oracle[1]),
    )
    assert mean("m", np.array([0.1, 0.1, 3.0])).lo == 0.0


def test_mean_without_spread_has_no_interval() -> None:
    assert mean("m", np.array([2.0, 2.0])).lo is None
    assert mean("m", np.array([2.0])).hi is None


def test_score_of_a_graded_metric_is_a_mean_and_has_no_flips() -> None:
    found = {s.name: s for s in measure_all(make_pair([0.5, 1.0, 0.25], [0.5, 0.5, 0.5]))}
    assert found["score_a"].estimate == pytest.approx(1.75 / 3)
    assert "right_to_wrong" not in found


def test_empty_answer_diverges_at_its_first_token() -> None:
    pair = make_pair([1.0, 1.0], [1.0, 0.0])
    ids = pl.Series([[1, 2, 3], []], dtype=pl.List(pl.Int64))
    found = {s.name: s for s in measure_all(Pair(pair.items.with_columns(token_ids_b=ids), 2))}
    assert (found["mean_divergence_index"].n, found["mean_divergence_index"].estimate) == (1, 0.0)
    assert found["mean_margin_at_divergence"].estimate == 3.0


def test_mean_over_replicates_is_noted_only_where_they_differ() -> None:
    pair = make_pair([1.0, 1.0], [1.0, 0.0])
    means = pair.items.with_columns(mean_value_b=pl.Series([0.5, 0.0]))
    found = {s.name: s for s in measure_all(Pair(means, 2))}
    assert (found["score_b"].estimate, dict(found["score_a"].detail)) == (0.5, {})
    assert found["score_b"].detail == {"mean_over_replicates": 0.25}
    assert found["delta"].detail == {"mean_over_replicates": -0.75}
