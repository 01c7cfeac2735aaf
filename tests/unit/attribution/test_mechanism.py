"""Gaps, tau, predicted flips: against simulated logits."""

from __future__ import annotations

import numpy as np
import pytest

from sameweights.attribution.mechanism import (
    bin_flips,
    combine,
    common_prefix,
    divergence_index,
    explain_flips,
    flip_probability,
    forecast,
    measure_tau,
)


def gaps(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).gamma(1.2, 1.5, n)


def test_tau_is_the_spread_of_the_change_of_the_gap() -> None:
    rng = np.random.default_rng(1)
    gap = gaps(20_000)
    found = measure_tau(gap, gap + rng.normal(0, 0.2, 20_000), np.repeat(np.arange(400), 50))
    assert found.tau_nats == pytest.approx(0.2, rel=0.02)
    assert found.interval is not None
    assert found.interval[0] < found.tau_nats < found.interval[1]
    assert (found.positions, found.sequences) == (20_000, 400)
    with pytest.raises(ValueError, match="1 of 2"):
        measure_tau(np.array([1.0, 2.0]), np.array([np.nan, 2.0]), np.array([0, 0]))
    with pytest.raises(ValueError, match="no position"):
        measure_tau(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5])
def test_predicted_flips_match_simulated_ones(tau: float) -> None:
    rng = np.random.default_rng(2)
    gap = gaps(400_000)
    flipped = gap + rng.normal(0, tau, gap.size) < 0
    found = explain_flips(gap, flipped, tau, platform_tau_nats=tau)
    assert found.observed == pytest.approx(found.predicted, rel=0.1)
    assert found.too_wide == pytest.approx(0.0, abs=0.01)


def test_flips_out_of_the_platforms_reach() -> None:
    gap = np.array([0.0, 0.01, 1.0, 2.0, 3.0])
    flipped = np.array([True, True, True, True, False])
    found = explain_flips(gap, flipped, tau_nats=1.0, platform_tau_nats=0.1)
    assert found.too_wide == pytest.approx(0.5)
    assert found.ties == 1
    none = explain_flips(gap, np.zeros(5, dtype=bool), 1.0, 0.1)
    assert none.too_wide is None


def test_a_tie_flips_half_of_the_time_under_any_tau() -> None:
    for tau in (0.0, 1e-6, 10.0):
        assert flip_probability(np.array([0.0]), tau)[0] == pytest.approx(0.5)
    assert flip_probability(np.array([1.0]), 0.0)[0] == 0.0


def test_forecast_of_churn_against_simulated_answers() -> None:
    rng = np.random.default_rng(3)
    tau, length, n = 0.05, 60, 4000
    gap = rng.exponential(2.0, (n, length))
    changed = (gap + rng.normal(0, tau, gap.shape) < 0).any(axis=1).mean()
    found = forecast(gap.reshape(-1), np.full(n, length), tau)
    assert found.churn == pytest.approx(changed, rel=0.05)
    assert found.small_tau == pytest.approx(found.flips_per_token, rel=0.1)
    assert found.mean_divergence == pytest.approx(1 / found.flips_per_token)
    assert forecast(gap.reshape(-1), np.full(n, length), 0.0).churn == 0.0


def test_expected_divergence_is_that_of_the_answers_that_change() -> None:
    rng = np.random.default_rng(4)
    tau, longest, n = 0.2, 60, 6000
    gap = rng.exponential(2.0, (n, longest))
    lengths = rng.integers(1, longest + 1, n)
    inside = np.arange(longest) < lengths[:, None]
    flips = (gap + rng.normal(0, tau, gap.shape) < 0) & inside
    changed = flips.any(axis=1)
    found = forecast(gap.reshape(-1), lengths, tau)
    observed = flips.argmax(axis=1)[changed].mean()
    assert found.divergence_index == pytest.approx(observed, rel=0.05)
    # An endless answer would diverge later: the two numbers are not to be compared.
    assert found.mean_divergence is not None
    assert found.mean_divergence > 1.3 * observed
    assert forecast(np.ones(3), lengths, 0.0).divergence_index is None


def test_independent_causes_add_in_squares() -> None:
    assert combine(0.3, 0.4) == pytest.approx(0.5)


def test_prefixes() -> None:
    assert common_prefix([1, 2, 3], [1, 2, 3]) == 3
    assert common_prefix([1, 2, 3], [1, 9, 3]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == 2
    assert divergence_index([1, 2, 3], [1, 9, 3]) == 1
    assert divergence_index([1, 2], [1, 2, 3]) == 2
    assert divergence_index([1, 2], [1, 2]) is None


def test_bins_share_all_positions_and_flips_among_them() -> None:
    rng = np.random.default_rng(3)
    gap = np.concatenate([np.zeros(7), rng.exponential(1.0, 500), [5e-324]])
    flipped = rng.random(len(gap)) < 0.3
    bins = bin_flips(gap, flipped, tau_nats=0.4)
    whole = explain_flips(gap, flipped, 0.4, 0.4)
    assert sum(one.positions for one in bins) == len(gap)
    assert sum(one.observed for one in bins) == whole.observed
    assert sum(one.predicted for one in bins) == pytest.approx(whole.predicted)
    tie, near = bins[0], bins[1]
    assert (tie.positions, tie.predicted, tie.hi_nats) == (7, 3.5, 0.0)
    assert near.positions == int(((gap > 0) & (gap < 0.1)).sum()) and bins[-1].hi_nats is None
    assert bin_flips(gap, flipped, tau_nats=0.0) == ()
