"""How many items a difference needs, and what a number of items can show."""

from __future__ import annotations

import math

from scipy import optimize, stats

from sameweights.attribution.results import Power

HALF_POINT = 0.005
POWER = 0.8
ALPHA = 0.05


def items_needed(delta: float, flip_share: float) -> int | None:
    """Items for 80% power to see a net change delta (two-sided 5%).

    n = (z_a sqrt(q) + z_b sqrt(q - delta^2))^2 / delta^2, q = share of items whose correctness
    flips (Connett et al. 1987). None when delta is 0 or larger than q, which cannot be.
    """
    exact = _items(delta, flip_share)
    return None if exact is None else math.ceil(exact)


def _items(delta: float, flip_share: float) -> float | None:
    delta = abs(delta)
    if delta == 0 or delta > flip_share:
        return None
    z_a, z_b = float(stats.norm.ppf(1 - ALPHA / 2)), float(stats.norm.ppf(POWER))
    rest = max(flip_share - delta**2, 0.0)
    return ((z_a * math.sqrt(flip_share) + z_b * math.sqrt(rest)) / delta) ** 2


def detectable_change(n: int, flip_share: float) -> float | None:
    """Smallest net change that n items show with 80% power; None when n is too small for any."""
    if flip_share <= 0 or (_items(flip_share, flip_share) or math.inf) > n:
        return None
    return float(
        optimize.brentq(lambda d: (_items(d, flip_share) or 0.0) - n, 1e-9, flip_share, xtol=1e-12)
    )


def describe_power(n: int, flip_share: float, change: float) -> Power:
    """Power of this comparison, for its own change and for half a point."""
    return Power(
        n=n,
        flip_share=flip_share,
        detectable=detectable_change(n, flip_share),
        items_needed_for_observed=items_needed(change, flip_share),
        items_needed_for_half_point=items_needed(HALF_POINT, flip_share),
    )
