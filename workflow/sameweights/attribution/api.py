"""The public entry: one call from an item table to an `Attribution`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from sameweights.attribution.bounds import Caps
from sameweights.attribution.bridge import find_bridge, split_bridge
from sameweights.attribution.capability import Capability, parse_rules
from sameweights.attribution.classes import classify
from sameweights.attribution.ends import choose_ends
from sameweights.attribution.inference import CONFIDENCE
from sameweights.attribution.lattice import Lattice
from sameweights.attribution.outcomes import OutcomeError, available
from sameweights.attribution.power import describe_power
from sameweights.attribution.results import (
    Attribution,
    Classes,
    Corner,
    Estimate,
    FlipTest,
    OutcomeSplit,
    PathSplit,
    Power,
)
from sameweights.attribution.split import SplitOptions, split_outcome
from sameweights.attribution.steps import flip_test, run_steps, single_estimate
from sameweights.attribution.table import ItemTable
from sameweights.attribution.verdict import say_verdict
from sameweights.attribution.view import View, prepare


def attribute(
    table: ItemTable,
    reference: str,
    target: str,
    *,
    rules: Iterable[Capability | str] = (),
    outcomes: Sequence[str] | None = None,
    path: str | None = None,
    caps: Caps | None = None,
    changed_only: bool = False,
) -> Attribution:
    """Split every outcome between two cells by factor, with intervals, or refuse.

    `reference`, `target`: cell labels "device/backend/precision" (a level per factor of the
    table), or the same cell twice as "...#0" and "...#1" to compare two replicates.
    `rules`: capability rules, as data or text ("trtllm needs jetson"). `outcomes`: names, default
    all that the table gives. `path`: order of switching for the telescoping table, e.g.
    "device>precision>backend". `caps`: assumed largest |single step| per player.
    `changed_only`: count only items that differ between the two; deterministic cells only.

    Raises TableError, LatticeError, RuleError or OutcomeError, each naming what was found.
    """
    parsed = _parse(rules, table)
    wide, ends, same_cell = choose_ends(table, reference, target)
    view = prepare(wide, *ends, parsed)
    own = prepare(table, ends[0][:-1], ends[0][:-1], parsed) if same_cell else None
    notes = [*table.notes, *view.notes, *_replicate_notes(view)]
    options = SplitOptions(path, caps or {}, changed_only, own)
    splits = _split_all(view, outcomes, options, notes)
    flips = flip_test(view, 0, view.lattice.full)
    return Attribution(
        reference=reference,
        target=target,
        metric=table.metric,
        filter=table.filter,
        factors=tuple(f for player in view.lattice.players for f in player.factors),
        players=view.lattice.names,
        n_items=view.n,
        n_excluded=view.n_excluded,
        n_strata=view.sampling.n_strata,
        n_clusters=view.sampling.n_clusters,
        confidence=CONFIDENCE,
        corners=_corners(view),
        outcomes=splits,
        steps=run_steps(view),
        flips=flips,
        classes=_classes(view, notes),
        power=_power(flips),
        bridge=_bridge(wide, view.lattice, notes),
        errors=view.errors,
        verdict=say_verdict(reference, target, splits),
        notes=tuple(dict.fromkeys(notes)),
    )


def _parse(rules: Iterable[Capability | str], table: ItemTable) -> list[Capability]:
    cells = [*(run.levels for run in table.runs), *table.others]
    levels = {
        factor: frozenset(cell[k] for cell in cells if k < len(cell))
        for k, factor in enumerate(table.factors)
    }
    parsed: list[Capability] = []
    for rule in rules:
        parsed += parse_rules([rule], levels) if isinstance(rule, str) else [rule]
    return parsed


def _split_all(
    view: View, outcomes: Sequence[str] | None, options: SplitOptions, notes: list[str]
) -> dict[str, OutcomeSplit]:
    """Splits by outcome name; one that was not asked for by name may be unavailable: a note."""
    splits = {}
    for name in outcomes or available(view.table):
        try:
            splits[name] = split_outcome(name, view, options)
        except OutcomeError as error:
            if outcomes:
                raise
            notes.append(f"{name} left out: {error}")
    return splits


def _replicate_notes(view: View) -> list[str]:
    """What a reader must know about cells with and without replicates."""
    pairs = {mask: view.pairs_within(mask) for mask in view.masks}
    notes = []
    if pairs[0] and (single := [view.lattice.cell(m) for m, found in pairs.items() if not found]):
        notes.append(f"run once, so churn excess takes the reference's floor for: {single}")
    if any(len(rows) > 1 for rows in view.rows.values()):
        notes.append("item classes and McNemar's test use the first run of each cell")
    if view.table.seeds == "fewshot" and len({view.table.runs[r].seed for r in view.rows[0]}) == 1:
        notes.append("one few-shot seed: the intervals hold for these prompts only")
    return notes


def _corners(view: View) -> tuple[Corner, ...]:
    """Every corner of the lattice with its state, and its own score where it was run."""
    lattice = view.lattice
    return tuple(
        Corner(
            cell=lattice.cell(mask),
            switched=lattice.members(mask),
            state=lattice.state(mask),
            replicates=len(view.rows.get(mask, ())),
            score=_corner_score(view, mask) if mask in view.rows else None,
        )
        for mask in sorted(lattice.levels, key=lambda m: (m.bit_count(), m))
    )


def _corner_score(view: View, mask: int) -> Estimate:
    """A cell's own score. Its imaginary items sit at the ends of the metric's range."""
    low, high = view.table.value_range
    middle = (low + high) / 2 if np.isfinite(high - low) else 0.0
    values = view.table.values[list(view.rows[mask])].mean(axis=0) - middle
    limits = low - middle, high - middle
    found = single_estimate("score", values, view, view.score_noise(mask), limits)
    value = None if found.estimate is None else found.estimate + middle
    interval = found.interval and (found.interval[0] + middle, found.interval[1] + middle)
    bounds = found.bounds[0] + middle, found.bounds[1] + middle
    return replace(found, estimate=value, interval=interval, bounds=bounds, n=view.n)


def _classes(view: View, notes: list[str]) -> Classes | None:
    level = view.table.churn_level
    if level is None:
        return None
    try:
        return classify(view, level)
    except OutcomeError as error:
        notes.append(f"item classes left out: {error}")
        return None


def _power(flips: FlipTest | None) -> Power | None:
    if flips is None:
        return None
    lost, won = flips.right_to_wrong, flips.wrong_to_right
    return describe_power(flips.n, (lost + won) / flips.n, (won - lost) / flips.n)


def _bridge(table: ItemTable, lattice: Lattice, notes: list[str]) -> PathSplit | None:
    """A path over other levels, when factors are merged and run cells allow one."""
    if all(len(player.factors) == 1 for player in lattice.players):
        return None
    chain = find_bridge(list(table.cells), lattice.levels[0], lattice.levels[lattice.full])
    if chain is None:
        notes.append("no chain of run cells separates the merged factors one by one")
        return None
    return split_bridge(table, chain)
