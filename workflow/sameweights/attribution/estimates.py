"""Measured means dressed as `Estimate`s: the one place where a point-identified number is made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sameweights.attribution.flips import holm
from sameweights.attribution.inference import Means, clip, p_values
from sameweights.attribution.results import FEW_CONTRIBUTING, Estimate, Interval

ANYTHING: Interval = (-np.inf, np.inf)


def point_estimates(
    names: Sequence[str],
    means: Means,
    noise_floor: float | None = None,
    limits: Sequence[Interval] | None = None,
    critical: float | None = None,
) -> list[Estimate]:
    """One estimate per mean. `limits`: what each can be at all; its intervals stay inside.

    `critical`: value of max |t| for the simultaneous intervals, if wanted.
    """
    limits = limits or [ANYTHING] * len(names)
    alone = means.intervals()
    together = means.intervals(critical) if critical else [None] * len(names)
    p = p_values(means)
    adjusted = holm(p.tolist())
    return [
        Estimate(
            name=name,
            estimate=float(means.mean[k]),
            interval=clip(alone[k], limits[k]),
            bounds=(float(means.mean[k]), float(means.mean[k])),
            verdict="identified",
            n=means.n,
            contributing=int(means.contributing[k]),
            few_items=bool(means.contributing[k] < FEW_CONTRIBUTING),
            noise_floor=noise_floor,
            se=float(means.se[k]),
            df=float(means.df[k]),
            simultaneous=clip(together[k], limits[k]),
            p=float(p[k]),
            p_holm=float(adjusted[k]),
        )
        for k, name in enumerate(names)
    ]
