"""Stopping early over items: intervals that stay valid however often one looks.

The e-value of the flips is in `flips.e_value`. Rerunning the same deterministic items adds no
evidence; each new build is a new hypothesis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sameweights.attribution.flips import e_value
from sameweights.attribution.inference import Floats
from sameweights.attribution.results import Interval

ALPHA = 0.05


def confidence_sequence(
    contributions: Floats, planned_items: int, alpha: float = ALPHA
) -> list[Interval]:
    """Intervals of the running mean after each item, all valid at once (asymptotically).

    contributions [n] in the order in which items were run, which must be random. Gaussian mixture
    (Robbins 1970; Waudby-Smith et al. 2024): with rho tuned to be narrowest at `planned_items`,
    half width = s sqrt(2 (t rho^2 + 1) / (t^2 rho^2) log(sqrt(t rho^2 + 1) / alpha)).
    """
    t = np.arange(1, len(contributions) + 1, dtype=np.float64)
    mean = np.cumsum(contributions) / t
    variance = np.maximum(np.cumsum(contributions**2) / t - mean**2, 0.0)
    # Before two different values were seen there is no spread to go by: one item's worth is added.
    largest = max(float(np.abs(contributions).max(initial=0.0)), 1e-12)
    sd = np.sqrt(variance + largest**2 / t)
    rho2 = tuned_rho2(planned_items, alpha)
    half = sd * np.sqrt(2 * (t * rho2 + 1) / (t**2 * rho2) * np.log(np.sqrt(t * rho2 + 1) / alpha))
    return [(float(m - h), float(m + h)) for m, h in zip(mean, half, strict=True)]


def tuned_rho2(planned_items: int, alpha: float = ALPHA) -> float:
    """Mixture variance that makes the sequence narrowest at the planned number of items."""
    log_term = -2 * math.log(alpha)
    return (log_term + math.log(log_term + 1)) / planned_items


@dataclass(frozen=True)
class EarlyStop:
    """Where flips alone would have stopped the run.

    `e_value`: at the last item; `stopped_at`: first number of items at which it reached 1/alpha,
    None if never.
    """

    e_value: float
    stopped_at: int | None
    n: int


def early_stop(differences: Floats, alpha: float = ALPHA) -> EarlyStop:
    """Run the e-value of flips along items; differences [n] in -1, 0, 1, in random order."""
    lost, won = np.cumsum(differences < 0), np.cumsum(differences > 0)
    evidence = 1.0
    for item in np.flatnonzero(differences):
        evidence = e_value(int(lost[item]), int(won[item]))
        if evidence >= 1 / alpha:
            return EarlyStop(evidence, int(item) + 1, len(differences))
    return EarlyStop(evidence, None, len(differences))
