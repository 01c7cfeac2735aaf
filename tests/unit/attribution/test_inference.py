"""Intervals and tests against scipy and against textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sameweights.attribution.crossed import add_seed_variance
from sameweights.attribution.flips import (
    benjamini_hochberg,
    e_value,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
)
from sameweights.attribution.inference import (
    bonett_price,
    fieller,
    max_z_critical,
    measure,
    plan_sampling,
    wilson,
)
from sameweights.attribution.power import detectable_change, items_needed


def one_stratum(n: int) -> np.ndarray:
    return np.zeros(n, dtype=np.int64)


def test_plain_variance_is_the_textbook_standard_error() -> None:
    x = np.random.default_rng(1).normal(size=(50, 3))
    means = measure(x, plan_sampling(one_stratum(50), None))
    assert np.sqrt(np.diag(means.cov)) == pytest.approx(stats.sem(x, axis=0))
    assert means.df.tolist() == [49, 49, 49]


def test_bootstrap_of_scipy_agrees_with_the_clustered_standard_error() -> None:
    rng = np.random.default_rng(2)
    cluster = np.repeat(np.arange(80), 5)
    x = rng.normal(size=400) + np.repeat(rng.normal(size=80), 5)
    means = measure(x[:, None], plan_sampling(one_stratum(400), cluster))
    totals = x.reshape(80, 5).mean(axis=1)
    drawn = stats.bootstrap((totals,), np.mean, n_resamples=4000, rng=3)
    assert float(np.sqrt(means.cov[0, 0])) == pytest.approx(drawn.standard_error, rel=0.05)


def test_strata_take_their_means_out_and_order_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    strata = rng.integers(0, 4, 200)
    x = rng.normal(size=200) + 10.0 * strata
    means = measure(x[:, None], plan_sampling(strata, None))
    by_hand = sum((strata == h).sum() * np.var(x[strata == h], ddof=1) for h in range(4)) / 200**2
    assert means.cov[0, 0] == pytest.approx(by_hand)
    assert means.df[0] == 196
    assert means.mean[0] == pytest.approx(x.mean())


def test_single_clusters_share_a_stratum_and_one_item_has_no_interval() -> None:
    sampling = plan_sampling(np.array([0, 0, 0, 1, 2]), None)
    assert (sampling.n_strata, sampling.df) == (2, 3)
    assert measure(np.ones((1, 1)), plan_sampling(one_stratum(1), None)).intervals() == [None]


def test_corrected_interval_is_close_to_bonett_and_price() -> None:
    x = np.zeros(250)
    x[:20], x[20:28] = -1, 1
    ours = measure(x[:, None], plan_sampling(one_stratum(250), None)).intervals()[0]
    assert ours == pytest.approx(bonett_price(8, 20, 250), abs=6e-4)


def test_no_flips_still_give_an_interval_with_width() -> None:
    interval = measure(np.zeros((100, 1)), plan_sampling(one_stratum(100), None)).intervals()[0]
    assert interval is not None
    assert interval[0] < -0.01 < 0.01 < interval[1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_exact_is_scipys_binomial_test(b: int, c: int) -> None:
    if b + c:
        assert mcnemar_exact(b, c) == pytest.approx(stats.binomtest(b, b + c).pvalue)
    assert mcnemar_mid_p(b, c) <= mcnemar_exact(b, c)
    assert mcnemar_mid_p(b, c) == pytest.approx(mcnemar_mid_p(c, b))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_p_values(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))
    # Holm's step-down, said differently: the k-th smallest is rejected if all smaller ones are.
    order = np.argsort(p, kind="stable")
    worst = 0.0
    for rank, k in enumerate(order):
        worst = max(worst, (len(p) - rank) * p[k])
        assert holm(p)[k] == pytest.approx(min(worst, 1.0))


def test_e_value_is_a_fair_bet() -> None:
    n = 12
    expectation = sum(stats.binom.pmf(b, n, 0.5) * e_value(b, n - b) for b in range(n + 1))
    assert expectation == pytest.approx(1.0)
    assert e_value(0, 0) == pytest.approx(1.0)
    assert e_value(40, 2) > 20


def test_max_z_lies_between_one_and_all_independent() -> None:
    one, three = stats.t.ppf(0.975, 500), stats.t.ppf(1 - (1 - 0.95 ** (1 / 3)) / 2, 500)
    assert max_z_critical(np.eye(3), 500) == pytest.approx(three, abs=0.02)
    assert max_z_critical(np.ones((3, 3)), 500) == pytest.approx(one, abs=0.02)
    assert max_z_critical(np.zeros((3, 3)), 500) == pytest.approx(three, abs=0.02)


def test_fieller_covers_a_known_ratio() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        part = rng.normal(0.7, 1, 300)
        whole = part + rng.normal(0.3, 1, 300)
        x = np.stack([part, whole])
        found = fieller(part.mean(), whole.mean(), np.cov(x) / 300, 1.968)
        hits += found is not None and found[0] <= 0.7 <= found[1]
    assert 0.92 <= hits / 400 <= 0.98
    assert fieller(0.1, 0.01, np.eye(2), 2.0) is None


def test_wilson_is_scipys() -> None:
    known = stats.binomtest(18, 250).proportion_ci(method="wilson")
    assert wilson(18, 250) == pytest.approx((known.low, known.high))


def test_power_figures() -> None:
    assert items_needed(0.005, 0.072) == 22603
    assert detectable_change(250, 0.072) == pytest.approx(0.047, abs=5e-4)
    assert detectable_change(250, 0.38) == pytest.approx(0.109, abs=5e-4)
    assert items_needed(0.0, 0.1) is None
    assert detectable_change(5, 0.01) is None


def test_crossed_seeds_against_a_simulated_truth() -> None:
    rng = np.random.default_rng(6)
    n, seeds, hits = 60, 6, 0
    repeats = 2000
    sampling = plan_sampling(one_stratum(n), None)
    for _ in range(repeats):
        y = (
            rng.normal(0, 1, (1, n, 1))
            + rng.normal(0, 0.1, (seeds, 1, 1))
            + rng.normal(0, 1, (seeds, n, 1))
        )
        means = add_seed_variance(measure(y.mean(axis=0), sampling), y)
        interval = means.intervals()[0]
        assert interval is not None
        hits += interval[0] <= 0 <= interval[1]
    assert 0.93 <= hits / repeats <= 0.97


def test_seeds_that_do_not_vary_change_nothing() -> None:
    y = np.repeat(np.random.default_rng(7).normal(size=(1, 30, 1)), 3, axis=0)
    means = measure(y.mean(axis=0), plan_sampling(one_stratum(30), None))
    assert add_seed_variance(means, y).cov == pytest.approx(means.cov)
