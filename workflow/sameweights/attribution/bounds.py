"""What a term can be when a possible cell was not run: bounds, their interval, their verdict.

Only the worst case is free of assumptions. The envelope and the caps assume something and are
labelled so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from scipy import optimize, special

from sameweights.attribution.dividends import Contrast
from sameweights.attribution.inference import CONFIDENCE, Floats, Means
from sameweights.attribution.lattice import Lattice
from sameweights.attribution.outcomes import Outcome
from sameweights.attribution.results import Interval, Verdict
from sameweights.attribution.view import View

TOLERANCE = 1e-9

Caps = Mapping[str, float]
"""Largest assumed |single step| per player."""


def item_bounds(contrast: Contrast, outcome: Outcome, view: View) -> tuple[Floats, Floats]:
    """Worst-case contributions per item [n], lower and upper: a missing cell is anything it can be.

    Equal arrays when every cell of the contrast was run.
    """
    known = known_part(contrast, outcome, view)
    return _spread(known, contrast, view, outcome.lo, outcome.hi)


def item_envelope(contrast: Contrast, outcome: Outcome, view: View) -> tuple[Floats, Floats]:
    """Contributions per item if a missing value lies in the range of that item's run cells."""
    known = known_part(contrast, outcome, view)
    lo, hi = outcome.values.min(axis=1), outcome.values.max(axis=1)
    return _spread(known, contrast, view, lo, hi)


def known_part(contrast: Contrast, outcome: Outcome, view: View) -> Floats:
    """Contribution per item [n] of the cells that were run."""
    weights = np.array([contrast.get(mask, 0.0) for mask in view.masks])
    return np.asarray(outcome.values @ weights)


def _spread(
    known: Floats, contrast: Contrast, view: View, lo: Floats, hi: Floats
) -> tuple[Floats, Floats]:
    lower, upper = known.copy(), known.copy()
    for mask, weight in contrast.items():
        if mask not in view.lattice.run:
            lower += weight * (lo if weight > 0 else hi)
            upper += weight * (hi if weight > 0 else lo)
    return lower, upper


def imbens_manski(bounds: Interval, means: Means) -> Interval | None:
    """Interval that covers the true value (not the whole bound) with the stated confidence.

    `means` holds lower and upper bound as its two terms. c solves
    F(c + width / max se) - F(-c) = confidence (Imbens and Manski 2004), F Student's t.
    """
    df = float(means.df.min())
    if df < 1 or not np.isfinite(bounds).all():
        return None
    low_se, high_se = means.se
    gap = (bounds[1] - bounds[0]) / max(low_se, high_se)

    def miss(c: float) -> float:
        return float(special.stdtr(df, c + gap) - special.stdtr(df, -c) - CONFIDENCE)

    c = float(optimize.brentq(miss, 0.0, 1e4))
    low, high = means.shrink * means.mean
    return float(low - c * low_se), float(high + c * high_se)


def judge(bounds: Interval, total: float) -> Verdict:
    """Verdict of worst-case bounds against the whole change.

    Not identified: both 0 and the whole change lie inside the bounds.
    """
    lo, hi = bounds
    if hi - lo <= TOLERANCE:
        return "identified"
    if lo > TOLERANCE or hi < -TOLERANCE:
        return "sign identified"
    if lo - TOLERANCE <= total <= hi + TOLERANCE:
        return "not identified"
    return "partially identified"


class CapProgram:
    """Linear programs over the missing corners' means with capped single steps.

    Variables: one mean per missing corner, inside its logical range. For every feasible edge that
    switches player j, |v(to) - v(from)| <= cap of j. `means[S]` are those of the run corners.
    """

    def __init__(self, lattice: Lattice, means: Mapping[int, float], limits: Interval) -> None:
        self.lattice = lattice
        self.means = means
        self.limits = limits
        self.missing = lattice.missing
        self.edges = lattice.edges()
        self.rows, self.offsets = self._edge_rows()

    def _edge_rows(self) -> tuple[Floats, Floats]:
        rows = np.zeros((len(self.edges), len(self.missing)))
        offsets = np.zeros(len(self.edges))
        for k, (low, high, _) in enumerate(self.edges):
            step, offsets[k] = self._split({high: 1.0, low: -1.0})
            rows[k] = step
        return rows, offsets

    def _split(self, contrast: Contrast) -> tuple[Floats, float]:
        """A contrast as coefficients of the missing means plus a known constant."""
        coefficients = np.array([contrast.get(mask, 0.0) for mask in self.missing])
        return coefficients, sum(
            weight * self.means[mask] for mask, weight in contrast.items() if mask in self.means
        )

    def bounds(self, contrast: Contrast, caps: Caps) -> Interval | None:
        """Smallest and largest value of a contrast under caps; None if the data break a cap."""
        coefficients, constant = self._split(contrast)
        cap = np.array([caps.get(self.lattice.names[j], np.inf) for _, _, j in self.edges])
        bounded = np.isfinite(cap)
        rows, offsets, cap = self.rows[bounded], self.offsets[bounded], cap[bounded]
        a = np.concatenate([rows, -rows])
        b = np.concatenate([cap - offsets, cap + offsets]) + 1e-12
        if not self.missing:
            return (constant, constant) if (b >= 0).all() else None
        ends = []
        for sign in (1.0, -1.0):
            found = optimize.linprog(sign * coefficients, a, b, bounds=[self.limits] * len(rows.T))
            if found.status != 0:
                return None
            ends.append(sign * float(found.fun) + constant)
        return ends[0], ends[1]

    def breakdown(self, contrast: Contrast) -> float | None:
        """Largest common cap for which the sign is still decided.

        That is the smallest cap at which 0 is attainable. None when the data already need a cap
        that large (no cap decides), or when 0 is never attainable (no cap is needed).
        """
        coefficients, constant = self._split(contrast)
        if not coefficients.any():
            return None
        at_zero = self._smallest_cap((np.r_[coefficients, 0.0], -constant))
        needed = self.smallest_cap_of_data
        if at_zero is None or needed is None or at_zero <= needed + TOLERANCE:
            return None
        return at_zero

    @cached_property
    def smallest_cap_of_data(self) -> float | None:
        """Smallest common cap that the run cells allow."""
        return self._smallest_cap(None)

    def _smallest_cap(self, equality: tuple[Floats, float] | None) -> float | None:
        k = len(self.missing)
        minus_cap = -np.ones((len(self.edges), 1))
        a = np.block([[self.rows, minus_cap], [-self.rows, minus_cap]])
        b = np.concatenate([-self.offsets, self.offsets])
        found = optimize.linprog(
            np.r_[np.zeros(k), 1.0],
            a,
            b,
            A_eq=None if equality is None else equality[0][None, :],
            b_eq=None if equality is None else [equality[1]],
            bounds=[*([self.limits] * k), (0, None)],
        )
        return float(found.fun) if found.status == 0 else None
