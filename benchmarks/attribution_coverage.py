"""Do the intervals of the attribution cover? A simulation with exactly known truths.

Run: `python benchmarks/attribution_coverage.py --runs 4000 --markdown docs/coverage.md`

An item has a margin m (its task's mean, its cluster's share, its own). A cell adds to it, per
switched factor, a shift and independent noise; the answer is right when the sum is positive. All
means are then normal probabilities, so the truth of every term is exact.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special, stats

from sameweights.attribution import rules
from sameweights.attribution.bounds import imbens_manski
from sameweights.attribution.capability import Rule
from sameweights.attribution.dividends import Contrast
from sameweights.attribution.flips import e_value
from sameweights.attribution.inference import (
    Floats,
    Means,
    Sampling,
    max_z_critical,
    measure,
    plan_sampling,
    t_critical,
)
from sameweights.attribution.lattice import Lattice, build_lattice
from sameweights.attribution.results import FEW_CONTRIBUTING
from sameweights.attribution.sequential import confidence_sequence

FACTORS = ("device", "backend", "precision")
LOW, HIGH = 0.93, 0.97
ALWAYS = 0.95
"""Share of runs in which enough items must contribute for a term to count as "enough"."""


@dataclass(frozen=True)
class World:
    """How strongly each factor moves margins: `shift` and `tau`, in units of the item spread."""

    name: str
    shift: tuple[float, float, float]
    tau: tuple[float, float, float]


@dataclass(frozen=True)
class Layout:
    """How items are drawn: `tasks` strata, clusters of 1 to `largest` items, cluster spread."""

    name: str
    tasks: int
    largest: int
    spread: float


WORLDS = (
    World("rare", (0.0, 0.0, 0.0), (0.004, 0.004, 0.02)),
    World("usual", (0.0, 0.0, -0.05), (0.02, 0.02, 0.15)),
    World("heavy", (-0.05, 0.02, -0.4), (0.1, 0.05, 0.6)),
)
LAYOUTS = (
    Layout("plain", 1, 1, 0.0),
    Layout("stratified", 6, 1, 0.0),
    Layout("clustered", 1, 8, 0.7),
    Layout("both", 6, 8, 0.7),
)
SIZES = (250, 1000, 5000)


def lattice() -> Lattice:
    """device, backend, precision; the target's backend needs the target's device."""
    needs = Rule("backend", frozenset("1"), "device", frozenset("1"))
    cells = [tuple(f"{mask:03b}") for mask in range(8)]
    run = [cell for cell in cells if needs.allows(dict(zip(FACTORS, cell, strict=True)))]
    return build_lattice(FACTORS, tuple("000"), tuple("111"), run, [needs])


class Truth:
    """Exact mean of the score and of the churn (of correctness) at each corner."""

    def __init__(self, lattice: Lattice, world: World, layout: Layout, weights: Floats) -> None:
        centres = task_centres(layout)
        spread2 = 1.0 + layout.spread**2
        self.score, self.churn = {}, {}
        for mask in lattice.family:
            shift, noise2 = _perturbation(world, mask)
            chance = special.ndtr((centres + shift) / np.sqrt(spread2 + noise2))
            self.score[mask] = float(weights @ chance)
            cov = [[spread2, spread2], [spread2, spread2 + noise2 + 1e-12]]
            both = [
                stats.multivariate_normal.cdf([c, c + shift], cov=cov, allow_singular=True)
                for c in centres
            ]
            alone = special.ndtr(centres / np.sqrt(spread2))
            self.churn[mask] = float(weights @ (alone + chance - 2 * np.array(both)))
        self.churn[0] = 0.0


def _perturbation(world: World, mask: int) -> tuple[float, float]:
    on = [j for j in range(3) if mask >> j & 1]
    return sum(world.shift[j] for j in on), sum(world.tau[j] ** 2 for j in on)


def task_centres(layout: Layout) -> Floats:
    """Mean margin of each task: easy ones and hard ones."""
    return np.linspace(-0.8, 1.2, layout.tasks) if layout.tasks > 1 else np.array([0.3])


@dataclass(frozen=True)
class Draw:
    """Items of one size and layout: strata, clusters, prepared once; margins anew each run."""

    strata: np.ndarray
    clusters: np.ndarray
    sampling: Sampling

    @classmethod
    def plan(cls, n: int, layout: Layout) -> Draw:
        share = np.arange(1, layout.tasks + 1) ** 1.0
        strata = np.searchsorted(np.cumsum(share) / share.sum(), (np.arange(n) + 0.5) / n)
        sizes = np.random.default_rng(0).integers(1, layout.largest + 1, n)
        clusters = np.repeat(np.arange(n), sizes)[:n]
        # A cluster lies inside one task.
        _, clusters = np.unique(clusters + n * strata, return_inverse=True)
        grouped = clusters if layout.largest > 1 else None
        return cls(strata, clusters, plan_sampling(strata, grouped))

    def run(
        self, rng: np.random.Generator, world: World, layout: Layout, lattice: Lattice
    ) -> Floats:
        """Right (1) or wrong (0) per item and corner [n, C]."""
        n = len(self.strata)
        margin = task_centres(layout)[self.strata] + rng.standard_normal(n)
        margin += layout.spread * rng.standard_normal(n)[self.clusters]
        # Noise of a factor is the same in every cell that has it switched.
        moves = np.array(world.shift) + np.array(world.tau) * rng.standard_normal((n, 3))
        on = np.array([[mask >> j & 1 for mask in lattice.family] for j in range(3)])
        right: Floats = (margin[:, None] + moves @ on > 0).astype(np.float64)
        return right


def terms_of(lattice: Lattice) -> dict[str, Contrast]:
    """Every term that the report prints, for one outcome."""
    fair = {f"fair {name}": c for name, c in rules.fair_shares(lattice).items()}
    return {"total": rules.total(lattice), **rules.headline(lattice), **fair}


@dataclass
class Tally:
    """Counts over runs, for T terms."""

    covered: Floats
    wald: Floats
    contributing: Floats
    enough: Floats
    together: float = 0.0
    bounded: float = 0.0
    bounds_hold: float = 0.0
    runs: int = 0


def simulate(world: World, layout: Layout, n: int, runs: int, seed: int) -> tuple[list[str], Tally]:
    """Coverage of every term of score and churn in one regime."""
    grid = lattice()
    draw = Draw.plan(n, layout)
    truth = Truth(grid, world, layout, np.bincount(draw.strata) / n)
    terms = terms_of(grid)
    weights = np.array([[c.get(m, 0.0) for c in terms.values()] for m in grid.family])
    exact = np.r_[_values(truth.score, grid) @ weights, _values(truth.churn, grid) @ weights]
    names = [f"{outcome} {name}" for outcome in ("score", "churn") for name in terms]
    k = len(names)
    tally = Tally(np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k))
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        right = draw.run(rng, world, layout, grid)
        changed = (right != right[:, :1]).astype(np.float64)
        means = measure(np.hstack([right @ weights, changed @ weights]), draw.sampling)
        _count(tally, means, exact, len(terms))
        _count_bounds(tally, right, truth, grid, draw)
    return names, tally


def _values(v: Mapping[int, float], grid: Lattice) -> Floats:
    return np.array([v[mask] for mask in grid.family])


def _count(tally: Tally, means: Means, exact: Floats, per_outcome: int) -> None:
    half = t_critical(means.df) * means.se
    tally.covered += np.abs(means.shrink * means.mean - exact) <= half
    wald = 1.96 * np.sqrt(np.diag(means.cov))
    tally.wald += np.abs(means.mean - exact) <= wald + 1e-15
    tally.contributing += means.contributing
    tally.enough += means.contributing >= FEW_CONTRIBUTING
    family = slice(1, 5)  # the headline of the score
    critical = max_z_critical(means.cov[family, family], float(means.df[0]))
    off = np.abs(means.shrink * means.mean - exact)[family]
    tally.together += bool((off <= critical * means.se[family]).all())
    tally.runs += 1


def _count_bounds(tally: Tally, right: Floats, truth: Truth, grid: Lattice, draw: Draw) -> None:
    """Precision at the reference with its cell not run: worst case and its interval."""
    cell = grid.family.index(0b100)
    low, high = -right[:, 0], 1 - right[:, 0]
    sample = float((right[:, cell] - right[:, 0]).mean())
    tally.bounds_hold += low.mean() - 1e-12 <= sample <= high.mean() + 1e-12
    means = measure(np.stack([low, high], axis=1), draw.sampling)
    interval = imbens_manski((float(low.mean()), float(high.mean())), means)
    exact = truth.score[0b100] - truth.score[0]
    tally.bounded += interval is not None and interval[0] <= exact <= interval[1]


def sequential_errors(runs: int, n: int = 1000) -> tuple[float, float]:
    """False alarms of the e-value, and of the confidence sequence, looked at after every item."""
    rng = np.random.default_rng(7)
    alarms = misses = 0
    for _ in range(runs):
        x = rng.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1])
        lost, won = np.cumsum(x < 0), np.cumsum(x > 0)
        at = np.flatnonzero(x)
        alarms += any(e_value(int(lost[k]), int(won[k])) >= 20 for k in at)
        sequence = confidence_sequence(x, n)
        misses += any(low > 0 or high < 0 for low, high in sequence)
    return alarms / runs, misses / runs


def summarise(
    world: World, layout: Layout, n: int, names: list[str], tally: Tally
) -> tuple[str, list[str]]:
    """One table row, and the terms outside 93-97% although enough items contribute."""
    cover, wald = tally.covered / tally.runs, tally.wald / tally.runs
    contributing = tally.contributing / tally.runs
    enough = tally.enough / tally.runs >= ALWAYS
    where = f"{world.name}, {layout.name}, n={n}"
    bad = [
        f"{where}: {names[k]} {cover[k]:.1%} ({contributing[k]:.0f} items)"
        for k in np.flatnonzero(enough & ((cover < LOW) | (cover > HIGH)))
    ]
    few = ~enough
    bad += [f"{where}: {names[k]} {cover[k]:.1%}" for k in np.flatnonzero(few & (cover < LOW))]
    if tally.bounds_hold < tally.runs:
        bad.append(f"{where}: worst-case bounds missed the value")
    if tally.together / tally.runs < LOW:
        bad.append(f"{where}: simultaneous {tally.together / tally.runs:.1%}")
    row = (
        f"| {world.name} | {layout.name} | {n} | {int(enough.sum())} "
        f"| {_range(cover[enough])} | {_range(wald[enough])} | {_range(cover[few])} "
        f"| {_range(wald[few])} | {tally.together / tally.runs:.1%} "
        f"| {tally.bounded / tally.runs:.1%} | {tally.bounds_hold / tally.runs:.0%} |"
    )
    return row, bad


def _range(values: Floats) -> str:
    return f"{values.min():.1%} - {values.max():.1%}" if len(values) else "-"


HEADER = """# Coverage of the intervals, by simulation

Written by `python benchmarks/attribution_coverage.py --runs {runs} --markdown docs/coverage.md`;
edit the command, not this page. {runs} experiments a row; a coverage near 95% has a standard error
of {error:.1%}.

Margins are normal, factors shift them and add noise, so every truth is exact. "rare", "usual" and
"heavy" say how many items a factor moves; "plain", "stratified" (6 tasks of unequal size and
difficulty), "clustered" (1 to 8 items a document) and "both" say how items are drawn. A row covers
16 terms: total, main effects, interaction and fair shares, for score and for churn.

- *enough*: terms to which at least {enough} items contribute in {always:.0%} of the experiments or
  more; their intervals must cover {low:.0%} to {high:.0%}.
- *few*: the other terms, which are printed with "few items" then. They may cover more (with 10 to
  12 contributions of both signs the exact coverage is 97.0 to 97.7%), never less than {low:.0%}.
- *Wald*: the same without the two imaginary items, for comparison.
- *joint*: all four headline terms of the score at once (max-|z|).
- *bounded*: the Imbens-Manski interval of precision when its cell was not run. It covers more than
  95% because the truth lies inside the bounds, not at their ends.
- *bounds*: worst-case bounds that contain the value that the missing cell would have given.

| world | layout | n | enough | cover | Wald | few: cover | few: Wald | joint | bounded | bounds |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def report(lines: list[str], failed: list[str], runs: int, alarms: float, misses: float) -> str:
    """The page docs/coverage.md."""
    head = HEADER.format(
        runs=runs,
        error=(0.95 * 0.05 / runs) ** 0.5,
        enough=FEW_CONTRIBUTING,
        always=ALWAYS,
        low=LOW,
        high=HIGH,
    )
    outside = "\n".join(f"- {line}" for line in failed) or "- none"
    return (
        head
        + "\n".join(lines)
        + f"""

Outside the range:

{outside}

Looked at after every one of 1,000 items, with no true difference: the e-value of the flips raised a
false alarm in {alarms:.1%} of runs, and the confidence sequence lost the truth at some point in
{misses:.1%}; both may reach 5%.
"""
    )


def regimes() -> Iterator[tuple[World, Layout, int]]:
    for world in WORLDS:
        for layout in LAYOUTS:
            for n in SIZES:
                yield world, layout, n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000, help="simulated experiments a regime")
    parser.add_argument("--markdown", type=Path, help="write the results here")
    options = parser.parse_args()
    started = time.process_time()
    lines, failed = [], []
    for k, (world, layout, n) in enumerate(regimes()):
        names, tally = simulate(world, layout, n, options.runs, seed=k)
        line, bad = summarise(world, layout, n, names, tally)
        print(line, flush=True)
        lines.append(line)
        failed += bad
    alarms, misses = sequential_errors(min(options.runs, 2000))
    spent = time.process_time() - started
    text = report(lines, failed, options.runs, alarms, misses)
    if options.markdown:
        options.markdown.write_text(text)
    print(f"e-value alarms {alarms:.3f}, sequence misses {misses:.3f}; {spent:.0f} s of CPU")
    for problem in failed:
        print("outside:", problem)
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
