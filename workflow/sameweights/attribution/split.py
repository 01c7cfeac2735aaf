"""One outcome split between reference and target: every rule on one lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sameweights.attribution import rules
from sameweights.attribution.bounds import Caps
from sameweights.attribution.next_cells import rank_next_cells
from sameweights.attribution.noise import noise_floor
from sameweights.attribution.outcomes import Outcome, build_outcome, churn_level_of
from sameweights.attribution.results import (
    Estimate,
    OrderRange,
    OutcomeSplit,
    PathSplit,
)
from sameweights.attribution.terms import Estimator
from sameweights.attribution.verdict import say_split
from sameweights.attribution.view import View


@dataclass(frozen=True)
class SplitOptions:
    """Named path, caps per player, changed-only counting.

    `noise_view`: where the noise floor is read, if not in the view itself (a cell compared with
    itself has its replicates as corners, not inside one).
    """

    path: str | None = None
    caps: Caps = field(default_factory=dict)
    changed_only: bool = False
    noise_view: View | None = None


def split_outcome(name: str, view: View, options: SplitOptions) -> OutcomeSplit:
    """Apply every rule to one outcome; raises OutcomeError, or LatticeError for a wrong path."""
    lattice = view.lattice
    estimator = build_estimator(name, view, options)
    headline, fair = rules.headline(lattice), rules.fair_shares(lattice)
    (total,) = estimator.estimate({"total": rules.total(lattice)})
    mains, critical = estimator.estimate_family(headline)
    chain = rules.finest_run_chain(lattice)
    blocks = estimator.estimate(rules.chain_steps(lattice, chain))
    cells = rank_next_cells(lattice, headline, fair, _width(estimator), view.table.cost_s)
    unit, noise = estimator.outcome.unit, estimator.noise
    return OutcomeSplit(
        outcome=name,
        unit=unit,
        total=total,
        headline=mains,
        interactions=estimator.estimate(rules.interactions(lattice)),
        fair_share=estimator.estimate_family(fair)[0],
        path_average=estimator.estimate(rules.path_average(lattice)),
        path=_path(estimator, options.path, chain),
        order_sensitivity=_order_sensitivity(estimator),
        blocks=blocks,
        shares=estimator.shares(headline, total),
        noise=noise,
        next_cells=cells,
        identified=all(term.estimate is not None for term in mains),
        sentence=say_split(name, unit, total, mains, blocks, cells, noise),
        critical_value=critical,
        raw_total=_raw_total(estimator, options),
    )


def build_estimator(name: str, view: View, options: SplitOptions) -> Estimator:
    """Compute an outcome and its noise floor; raises OutcomeError."""
    outcome = build_outcome(name, view, options.changed_only)
    by_seed: tuple[Outcome, ...] = ()
    if view.table.seeds == "fewshot":
        seeds = sorted({view.table.runs[row].seed for row in view.rows[0]})
        parts = [replace(view, rows=view.rows_of_seed(seed)) for seed in seeds]
        by_seed = tuple(build_outcome(name, part, options.changed_only) for part in parts)
    noise = noise_floor(name, options.noise_view or view)
    return Estimator(view, outcome, by_seed, noise, options.caps)


def _width(estimator: Estimator) -> float:
    width = float((estimator.outcome.hi - estimator.outcome.lo).mean())
    return width if width < float("inf") else 1.0  # unbounded: rank by coefficients alone


def _path(estimator: Estimator, named: str | None, chain: Sequence[int]) -> PathSplit:
    lattice = estimator.view.lattice
    chain = rules.chain_of_path(lattice, named) if named else chain
    steps = rules.chain_steps(lattice, chain)
    cells = tuple(lattice.cell(mask) for mask in chain)
    return PathSplit(">".join(steps), cells, estimator.estimate(steps))


def _order_sensitivity(estimator: Estimator) -> tuple[OrderRange, ...]:
    """Smallest and largest measured step of each player over the edges of feasible paths."""
    lattice, means = estimator.view.lattice, estimator.program.means
    edges = list(rules.path_counts(lattice))
    ranges = []
    for j, name in enumerate(lattice.names):
        mine = [(low, high) for low, high, player in edges if player == j]
        steps = [means[high] - means[low] for low, high in mine if {low, high} <= lattice.run]
        lo, hi = (min(steps), max(steps)) if steps else (None, None)
        ranges.append(OrderRange(name, lo, hi, len(steps), len(mine)))
    return tuple(ranges)


def _raw_total(estimator: Estimator, options: SplitOptions) -> Estimate | None:
    """Raw churn beside its excess: floor + excess = raw."""
    name = estimator.outcome.name
    if not name.startswith("churn_excess"):
        return None
    raw = f"churn_{churn_level_of(name, estimator.view.table)}"
    beside = build_estimator(raw, estimator.view, options)
    return beside.estimate({"raw churn": rules.total(estimator.view.lattice)})[0]
