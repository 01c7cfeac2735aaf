"""Estimates of contrasts of one outcome: intervals where identified, bounds where not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sameweights.attribution import rules
from sameweights.attribution.bounds import (
    CapProgram,
    Caps,
    imbens_manski,
    item_bounds,
    item_envelope,
    judge,
    known_part,
)
from sameweights.attribution.crossed import add_seed_variance
from sameweights.attribution.dividends import Contrast
from sameweights.attribution.estimates import point_estimates
from sameweights.attribution.inference import (
    Floats,
    Means,
    clip,
    fieller,
    max_z_critical,
    measure,
    t_critical,
)
from sameweights.attribution.outcomes import Outcome
from sameweights.attribution.results import FEW_CONTRIBUTING, Estimate, Interval, NoiseFloor, Share
from sameweights.attribution.view import View

Terms = Mapping[str, Contrast]


@dataclass(frozen=True)
class Estimator:
    """Estimates contrasts of one outcome on one view.

    `by_seed`: the outcome under each few-shot seed alone; empty when seeds are not crossed.
    """

    view: View
    outcome: Outcome
    by_seed: tuple[Outcome, ...]
    noise: NoiseFloor
    caps: Caps

    def is_run(self, contrast: Contrast) -> bool:
        return all(mask in self.view.lattice.run for mask in contrast)

    @cached_property
    def total(self) -> float:
        """Change of the mean between reference and target."""
        means = self.outcome.values.mean(axis=0)
        return float(means[-1] - means[0])

    @cached_property
    def program(self) -> CapProgram:
        means = dict(zip(self.view.masks, self.outcome.values.mean(axis=0).tolist(), strict=True))
        limits = (float(self.outcome.lo.mean()), float(self.outcome.hi.mean()))
        return CapProgram(self.view.lattice, means, limits)

    def estimate_family(self, terms: Terms) -> tuple[tuple[Estimate, ...], float | None]:
        """Estimates with simultaneous intervals over the family, and their critical value."""
        known = [contrast for contrast in terms.values() if self.is_run(contrast)]
        critical = None
        if len(known) > 1:
            means = self.means(known)
            if means.df.min() >= 1:
                critical = max_z_critical(means.cov, float(means.df.min()))
        found = self.estimate(terms, critical)
        return tuple(self._with_breakdown(term, terms[term.name]) for term in found), critical

    def _with_breakdown(self, term: Estimate, contrast: Contrast) -> Estimate:
        if term.estimate is not None:
            return term
        return replace(term, breakdown=self.program.breakdown(contrast))

    def estimate(self, terms: Terms, critical: float | None = None) -> tuple[Estimate, ...]:
        """Estimates of named contrasts: a point where every cell was run, bounds elsewhere."""
        known = [name for name, contrast in terms.items() if self.is_run(contrast)]
        found: dict[str, Estimate] = {}
        if known:
            means = self.means([terms[name] for name in known])
            limits = [self.outcome.range_of(terms[name]) for name in known]
            made = point_estimates(known, means, self.noise.value, limits, critical)
            found = dict(zip(known, made, strict=True))
        return tuple(
            found[name] if name in found else self._bounded(name, contrast)
            for name, contrast in terms.items()
        )

    def means(self, contrasts: Sequence[Contrast]) -> Means:
        """Clustered means of identified contrasts, with the variance of few-shot seeds if any."""
        means = measure(self._contributions(contrasts, self.outcome), self.view.sampling)
        if len(self.by_seed) < 2:
            return means
        per_seed = np.stack([self._contributions(contrasts, o) for o in self.by_seed])
        return add_seed_variance(means, per_seed)

    def _contributions(self, contrasts: Sequence[Contrast], outcome: Outcome) -> Floats:
        weights = [[c.get(mask, 0.0) for c in contrasts] for mask in self.view.masks]
        return np.asarray(outcome.values @ np.array(weights))

    def _bounded(self, name: str, contrast: Contrast) -> Estimate:
        lower, upper = item_bounds(contrast, self.outcome, self.view)
        bounds = float(lower.mean()), float(upper.mean())
        interval = None
        if np.isfinite(bounds).all():
            ends = measure(np.stack([lower, upper], axis=1), self.view.sampling)
            interval = imbens_manski(bounds, ends)
        inner = item_envelope(contrast, self.outcome, self.view)
        known = known_part(contrast, self.outcome, self.view)
        contributing = int(np.count_nonzero(known))
        return Estimate(
            name=name,
            estimate=None,
            interval=clip(interval, self.outcome.range_of(contrast)),
            bounds=bounds,
            verdict=judge(bounds, self.total),
            n=self.view.n,
            contributing=contributing,
            few_items=contributing < FEW_CONTRIBUTING,
            noise_floor=self.noise.value,
            envelope=(float(inner[0].mean()), float(inner[1].mean())),
            capped=self.program.bounds(contrast, self.caps) if self.caps else None,
        )

    def shares(self, terms: Terms, total: Estimate) -> tuple[Share, ...]:
        """Each term as a share of the total, refused unless the total's interval excludes zero."""
        if not total.excludes_zero:
            reason = "the interval of the total change contains 0"
            return tuple(self._refuse(name, reason) for name in terms)
        return tuple(self._share(name, contrast) for name, contrast in terms.items())

    def _share(self, name: str, contrast: Contrast) -> Share:
        if not self.is_run(contrast):
            return self._refuse(name, "not identified: a cell was not run")
        means = self.means([contrast, rules.total(self.view.lattice)])
        part, whole = means.mean.tolist()
        # The imaginary clusters move part and whole together, as the items do.
        sign = np.sign(means.cov[0, 1]) or 1.0
        tilt = means.imaginary * np.array([sign, 1.0])
        cov = means.cov + 2 * np.outer(tilt, tilt)
        interval: Interval | None = fieller(part, whole, cov, float(t_critical(means.df.min())))
        if interval is None:
            return self._refuse(name, "Fieller's interval is unbounded")
        return Share(name, True, part / whole, interval, means.n, self.noise.value)

    def _refuse(self, name: str, reason: str) -> Share:
        return Share(name, False, n=self.view.n, noise_floor=self.noise.value, reason=reason)
