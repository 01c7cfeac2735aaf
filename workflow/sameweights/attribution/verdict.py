"""The verdict in one plain sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sameweights.attribution.results import Estimate, NextCell, NoiseFloor, OutcomeSplit
from sameweights.attribution.rules import INTERACTION

LABELS = {
    "score": "the score changes by",
    "churn": "answers that change:",
    "churn_excess": "answers that change beyond noise:",
    "right_to_wrong": "right answers lost:",
    "wrong_to_right": "wrong answers mended:",
    "kld": "mean KL divergence:",
    "top1_flips": "top-1 flips:",
}


def show(value: float, unit: str, signed: bool = True) -> str:
    """A value in its unit; proportions as percentage points."""
    sign = "+" if signed else ""
    if unit == "proportion":
        return f"{round(100 * value, 1) + 0.0:{sign}.1f}"  # + 0.0: no "-0.0"
    return f"{value + 0.0:{sign}.3g}"


def say_split(
    outcome: str,
    unit: str,
    total: Estimate,
    headline: Sequence[Estimate],
    blocks: Sequence[Estimate],
    next_cells: Sequence[NextCell],
    noise: NoiseFloor,
) -> str:
    """The change, its split or why it is refused, the noise floor; no full stop."""
    name = LABELS.get(outcome, f"{outcome}:")
    parts = [f"{name} {_with_interval(total, unit)} {_unit(unit)} on {total.n} items"]
    if outcome == "score" and total.interval is not None and not total.excludes_zero:
        parts[0] += " (no evidence of a change, and none of equality)"
    if len(headline) > 1:
        parts.append(_say_terms(headline, blocks, next_cells, unit))
    parts.append(_say_noise(noise, unit))
    return "; ".join(parts)


def _unit(unit: str) -> str:
    return "points" if unit == "proportion" else unit


def _with_interval(estimate: Estimate, unit: str) -> str:
    value = show(estimate.estimate or 0.0, unit)
    if estimate.interval is None:
        return f"{value} (too few items for an interval)"
    lo, hi = (show(end, unit) for end in estimate.interval)
    few = ", few items" if estimate.few_items else ""
    return f"{value} [{lo}, {hi}{few}]"


def _say_terms(
    headline: Sequence[Estimate],
    blocks: Sequence[Estimate],
    next_cells: Sequence[NextCell],
    unit: str,
) -> str:
    if all(term.estimate is not None for term in headline):
        terms = ", ".join(f"{t.name} {show(t.estimate or 0.0, unit)}" for t in headline)
        one_order = len(headline) > 1 and all(t.name != INTERACTION for t in headline)
        where = "in the only order that can run" if one_order else "at the reference"
        return f"split {where}: {terms}"
    known = ", ".join(f"{b.name} {show(b.estimate or 0.0, unit)}" for b in blocks)
    open_terms = [t.name for t in headline if t.estimate is None]
    text = f"known along the run cells: {known}; refused: {', '.join(open_terms)}"
    return f"{text}; run {next_cells[0].cell} next" if next_cells else text


def _say_noise(noise: NoiseFloor, unit: str) -> str:
    if noise.value is None:
        return "noise floor unknown (no replicates)"
    upper = "" if noise.upper is None else f" (up to {show(noise.upper, unit, signed=False)})"
    return f"noise floor {show(noise.value, unit, signed=False)}{upper}"


def say_verdict(reference: str, target: str, outcomes: Mapping[str, OutcomeSplit]) -> str:
    """One sentence on the whole comparison: the first outcome in full, then the next total."""
    first, *others = outcomes.values()
    text = f"From {reference} to {target}, {first.sentence}"
    beside = next((o for o in others if o.outcome == "churn"), None)
    if beside is not None:
        total = _with_interval(beside.total, beside.unit)
        text += f"; {LABELS['churn']} {total} {_unit(beside.unit)}"
    return text + "."
