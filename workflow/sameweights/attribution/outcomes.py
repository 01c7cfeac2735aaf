"""Outcomes as item-level set functions: one value per item and run corner.

Every outcome is averaged over replicates inside the item, so a split of it is linear and adds up.
Churn-like outcomes are 0 at the reference by definition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sameweights.attribution.dividends import Contrast
from sameweights.attribution.inference import Floats
from sameweights.attribution.table import CHURN_LEVELS, ItemTable
from sameweights.attribution.view import Pair, View
from sameweights.errors import UserError

PROPORTION = "proportion"
UNITS = {"kld": "nats"}


class OutcomeError(UserError):
    """The outcome is unknown or cannot be computed from this table; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """`values` [n, C] per item and run corner (columns as `View.masks`).

    `lo`, `hi` [n]: what an item's value can be in a cell that was not run. `limits`: what the mean
    of any cell can be; `zero_at_reference`: it is 0 there by definition.
    """

    name: str
    unit: str
    values: Floats
    lo: Floats
    hi: Floats
    limits: tuple[float, float] = (-np.inf, np.inf)
    zero_at_reference: bool = False

    def range_of(self, contrast: Contrast) -> tuple[float, float]:
        """What a contrast can be at all, whatever the data."""
        low = high = 0.0
        for mask, weight in contrast.items():
            if mask != 0 or not self.zero_at_reference:
                ends = weight * self.limits[0], weight * self.limits[1]
                low, high = low + min(ends), high + max(ends)
        return low, high


def available(table: ItemTable) -> list[str]:
    """Outcome names that this table can give, in order of importance."""
    names = ["score"]
    if table.churn_level is not None:
        names += ["churn", "churn_excess"]
    if is_binary(table.values):
        names += ["right_to_wrong", "wrong_to_right"]
    for level in CHURN_LEVELS:
        if level in table.codes and level != table.churn_level:
            names += [f"churn_{level}", f"churn_excess_{level}"]
    return [*names, *sorted(table.extras)]


def churn_level_of(name: str, table: ItemTable) -> str:
    """Churn level that an outcome name means: "churn" is the table's default level."""
    level = name.removeprefix("churn").removeprefix("_excess").removeprefix("_")
    return level or str(table.churn_level)


def build_outcome(name: str, view: View, changed_only: bool = False) -> Outcome:
    """Item values of a named outcome at every run corner.

    `changed_only` counts only items whose answer differs between reference and target; it drops
    transients and is valid for deterministic cells only. Raises OutcomeError.
    """
    known = available(view.table)
    if name not in known and not name.startswith("churn_"):
        raise OutcomeError(f"outcome {name!r}: allowed here {known}")
    if name.startswith("churn"):
        outcome = _churn(name, view)
    elif name in ("right_to_wrong", "wrong_to_right"):
        outcome = _directed_flips(name, view)
    else:
        outcome = _plain(name, view)
    return _only_changed(outcome, view) if changed_only else outcome


def _plain(name: str, view: View) -> Outcome:
    """A numeric value per item: the metric, or an extra such as KLD."""
    table = view.table
    source = table.values if name == "score" else table.extras[name]
    lo, hi = table.value_range if name == "score" else (0.0, np.inf)
    unit = UNITS.get(name, PROPORTION)
    values = np.stack([source[list(view.rows[m])].mean(axis=0) for m in view.masks], axis=1)
    if not np.isfinite(values).all():
        raise OutcomeError(f"outcome {name!r}: not every item has a value in every run cell")
    if name == "top1_flips":
        hi = 1.0
    return Outcome(name, unit, values, np.full(view.n, lo), np.full(view.n, hi), (lo, hi))


def _churn(name: str, view: View) -> Outcome:
    """Share of replicate pairs whose answers differ from the reference's.

    The excess takes off half the floor of both cells, N_R/2 + N_S/2: what is left is half the
    squared distance of the two answer distributions, unbiased with 2 replicates.
    """
    values = np.zeros((view.n, len(view.masks)))
    excess = name.startswith("churn_excess")
    level = churn_level_of(name, view.table)
    if level not in view.table.codes:
        raise OutcomeError(f"outcome {name!r}: answer levels here are {sorted(view.table.codes)}")
    for column, mask in enumerate(view.masks):
        if mask == 0:
            continue
        values[:, column] = disagreement(view, level, view.pairs_across(0, mask))
        if excess:
            values[:, column] -= (cell_noise(view, level, 0) + cell_noise(view, level, mask)) / 2
    # An unbiased excess can come out negative: no limits.
    limits = (-np.inf, np.inf) if excess else (0.0, 1.0)
    zeros, ones = np.zeros(view.n), np.ones(view.n)
    return Outcome(name, PROPORTION, values, zeros, ones, limits, zero_at_reference=True)


def disagreement(view: View, level: str, pairs: list[Pair]) -> Floats:
    """Per item, the share of row pairs whose answers differ. Raises OutcomeError without pairs."""
    codes = view.table.codes[level]
    used = sorted({row for pair in pairs for row in pair})
    if not pairs:
        raise OutcomeError(f"churn at level {level!r}: no independent pair of runs to compare")
    if (codes[used] < 0).any():
        raise OutcomeError(f"churn at level {level!r}: some scored items have no stored answer")
    total = np.zeros(codes.shape[1])
    for i, j in pairs:
        total += codes[i] != codes[j]
    return total / len(pairs)


def cell_noise(view: View, level: str, mask: int) -> Floats:
    """Per item, the share of replicate pairs of one corner that disagree.

    A corner that was run once has no floor of its own and borrows the reference's; if that one was
    not replicated either, OutcomeError.
    """
    pairs = view.pairs_within(mask) or view.pairs_within(0)
    if not pairs:
        cell = view.lattice.cell(0)
        raise OutcomeError(f"churn excess: reference {cell!r} has no replicates, no noise floor")
    return disagreement(view, level, pairs)


def _directed_flips(name: str, view: View) -> Outcome:
    """Right at R and wrong at S (or the reverse), over independent replicate pairs.

    The difference of the two is exactly the change of the score.
    """
    table = view.table
    right = np.stack([table.values[list(view.rows[m])].mean(axis=0) for m in view.masks], axis=1)
    at_reference = right[:, [view.masks.index(0)]]
    if name == "right_to_wrong":
        values, most = at_reference * (1 - right), at_reference[:, 0]
    else:
        values, most = (1 - at_reference) * right, 1 - at_reference[:, 0]
    values[:, view.masks.index(0)] = 0.0
    return Outcome(
        name, PROPORTION, values, np.zeros(view.n), most, (0.0, 1.0), zero_at_reference=True
    )


def _only_changed(outcome: Outcome, view: View) -> Outcome:
    level = view.table.churn_level
    if level is None:
        raise OutcomeError("changed-only: the table has no answers")
    for mask in (0, view.lattice.full):
        pairs = view.pairs_within(mask)
        if pairs and disagreement(view, level, pairs).any():
            raise OutcomeError("changed-only: replicates disagree; it needs deterministic cells")
    changed = disagreement(view, level, view.pairs_across(0, view.lattice.full)) > 0
    start = outcome.values[:, [view.masks.index(0)]]
    values = (outcome.values - start) * changed[:, None]
    lo, hi = (outcome.lo - start[:, 0]) * changed, (outcome.hi - start[:, 0]) * changed
    return Outcome(outcome.name, outcome.unit, values, lo, hi)


def is_binary(values: Floats) -> bool:
    """True when every value that is not missing is 0 or 1."""
    return bool(np.isin(values[np.isfinite(values)], (0.0, 1.0)).all())
