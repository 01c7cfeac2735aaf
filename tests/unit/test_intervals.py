"""Intervals from moments against scipy and against the same statistics of whole arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from sameweights import intervals
from sameweights.attribution import flips
from sameweights.attribution.inference import measure, plan_sampling

Floats = NDArray[np.float64]


def array(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (3, 20), (20, 20)])
def test_share_has_wilsons_interval(hits: int, n: int) -> None:
    lo, hi = intervals.share(array(n), array(hits))
    oracle = stats.binomtest(hits, n).proportion_ci(method="wilson")
    assert (lo[0], hi[0]) == pytest.approx((oracle.low, oracle.high))


def test_no_items_is_no_interval() -> None:
    zero = array(0)
    for lo, hi in (intervals.share(zero, zero), intervals.mean(zero, zero, zero)):
        assert np.isnan(lo[0]) and np.isnan(hi[0])


def test_mean_has_students_interval_cut_at_zero() -> None:
    values = array(0.5, 1.5, 4.0, 2.0)
    lo, hi = intervals.mean(array(4), array(values.sum()), array((values**2).sum()))
    oracle = stats.t.interval(0.95, 3, loc=2.0, scale=stats.sem(values))
    assert (lo[0], hi[0]) == (max(0.0, oracle[0]), pytest.approx(oracle[1]))


@pytest.mark.parametrize("values", [(2.0, 2.0), (2.0,), (0.0, 0.0, 0.0)])
def test_mean_without_spread_has_no_interval(values: tuple[float, ...]) -> None:
    x = array(*values)
    lo, hi = intervals.mean(array(len(x)), array(x.sum()), array((x**2).sum()))
    assert np.isnan(lo[0]) and np.isnan(hi[0])


@pytest.mark.parametrize("sizes", [(30,), (12, 40), (5, 2, 9)])
def test_difference_equals_that_of_the_whole_array(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(sizes))
    strata = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.integers(-2, 3, len(strata)) / 2
    parts = [x[strata == h] for h in range(len(sizes))]
    within = sum(len(p) / (len(p) - 1) * ((p - p.mean()) ** 2).sum() for p in parts)
    moments = (len(x), x.sum(), within, (x**2).sum(), np.count_nonzero(x), len(x) - len(sizes))
    lo, hi = intervals.difference(*(array(moment) for moment in moments))
    expected = measure(x[:, None], plan_sampling(strata, None)).intervals()[0]
    assert (lo[0], hi[0]) == pytest.approx(expected)


def test_mcnemar_equals_the_exact_one_for_every_small_table() -> None:
    for lost in range(12):
        for won in range(12):
            (found,) = intervals.mcnemar_mid_p(array(lost), array(won))
            assert found == pytest.approx(flips.mcnemar_mid_p(lost, won))
    (many,) = intervals.mcnemar_mid_p(array(4_000), array(4_200))
    assert many == pytest.approx(flips.mcnemar_mid_p(4_000, 4_200))


def tango(n: int, lost: int, won: int) -> tuple[float, float]:
    """Tango's score interval of a paired difference (Statistics in Medicine 17, 1998)."""

    def excess(delta: float) -> float:
        b = (2 * n - won + lost) * delta - won - lost
        c = -lost * delta * (1 - delta)
        q = (np.sqrt(b * b - 8 * n * c) - b) / (4 * n)
        spread = np.sqrt(max(n * (2 * q + delta * (1 - delta)), 1e-300))
        return float((won - lost - n * delta) / spread)

    z = float(stats.norm.ppf(0.975))
    at = (won - lost) / n
    ends = [(-1 + 1e-9, at, z), (at, 1 - 1e-9, -z)]
    return tuple(optimize.brentq(lambda d, z=z: excess(d) - z, lo, hi) for lo, hi, z in ends)


def of_flips(n: int, lost: Floats, won: Floats) -> tuple[Floats, Floats]:
    flips, total = lost + won, won - lost
    count = np.full(len(lost), float(n))
    within = n / (n - 1) * (flips - total**2 / n)
    return intervals.difference(count, total, within, flips, flips, count - 1)


@pytest.mark.parametrize(("lost", "won"), [(3, 3), (20, 5), (60, 10), (0, 12)])
def test_difference_is_near_the_score_interval(lost: int, won: int) -> None:
    lo, hi = of_flips(400, array(lost), array(won))
    assert (lo[0], hi[0]) == pytest.approx(tango(400, lost, won), abs=0.006)


@pytest.mark.parametrize("n", [4, 20, 200])
@pytest.mark.parametrize("shares", [(0.02, 0.02), (0.3, 0.05), (0.4, 0.4), (0.9, 0.0)])
def test_difference_holds_its_coverage_inside_the_bounds(
    n: int, shares: tuple[float, float]
) -> None:
    rng = np.random.default_rng(n)
    lost, won, _ = rng.multinomial(n, [*shares, 1 - sum(shares)], 10_000).T.astype(np.float64)
    lo, hi = of_flips(n, lost, won)
    truth = shares[1] - shares[0]
    held = (np.maximum(lo, -1) <= truth) & (truth <= np.minimum(hi, 1))
    assert held.mean() > 0.94
