"""Dividends of a set function on the feasible family (Moebius inverse), as contrasts.

A contrast is a map from corner masks to coefficients; its estimate is the coefficient-weighted sum
of the corners' means. Everything in a split is a contrast, so splits add up exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

Contrast = Mapping[int, float]


def add(contrasts: Iterable[tuple[float, Contrast]]) -> Contrast:
    """Weighted sum of contrasts, without the zero coefficients."""
    total: dict[int, float] = {}
    for weight, contrast in contrasts:
        for mask, coefficient in contrast.items():
            total[mask] = total.get(mask, 0.0) + weight * coefficient
    return {mask: value for mask, value in total.items() if abs(value) > 1e-14}


def difference(to_mask: int, from_mask: int) -> Contrast:
    """v(to) - v(from); empty when they are the same corner."""
    return {} if to_mask == from_mask else {to_mask: 1.0, from_mask: -1.0}


@lru_cache(maxsize=256)
def dividends(family: tuple[int, ...]) -> Mapping[int, Contrast]:
    """m(S) = v(S) - sum of m(U) over feasible U strictly inside S, for every feasible S.

    `family`: feasible masks, by size. Cached: every rule and outcome of a lattice shares them.
    """
    result: dict[int, Contrast] = {}
    for mask in family:
        inside = [(-1.0, m) for sub, m in result.items() if sub & mask == sub]
        result[mask] = add([(1.0, {mask: 1.0}), *inside])
    return result
