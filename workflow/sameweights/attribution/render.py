"""An attribution as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sameweights.attribution.results import Attribution, Estimate, OutcomeSplit
from sameweights.attribution.verdict import show


def render(found: Attribution) -> str:
    """Text tables of an attribution; every number stands with n, interval and verdict."""
    lines = [
        f"{found.reference} -> {found.target}   metric {found.metric}, filter {found.filter}",
        f"{found.n_items} items, {found.n_excluded} left out, players: {', '.join(found.players)}",
        "",
        found.verdict,
    ]
    for split in found.outcomes.values():
        lines += ["", *_outcome(split)]
    lines += ["", *_cells(found), *_flips(found), *_classes(found), *_mechanism(found)]
    if found.notes:
        lines += ["", "notes", *(f"  - {note}" for note in found.notes)]
    return "\n".join(lines)


def _outcome(split: OutcomeSplit) -> list[str]:
    points = "points" if split.unit == "proportion" else split.unit
    lines = [f"{split.outcome} ({points})", *_rows([split.total], split.unit)]
    for title, terms in (
        ("main effects at the reference", split.headline),
        ("interactions by name", split.interactions),
        ("fair shares", split.fair_share),
        (f"along {split.path.name}", split.path.terms),
        ("separable blocks", split.blocks if not split.identified else ()),
    ):
        if terms:
            lines += [f"  {title}", *_rows(terms, split.unit)]
    for item in split.order_sensitivity:
        if item.lo is not None and item.hi is not None and item.steps_run > 1:
            lo, hi = show(item.lo, split.unit), show(item.hi, split.unit)
            lines.append(f"  {item.player}: {lo} to {hi} over {item.steps_run} orders")
    for share in split.shares:
        if share.reportable and share.share is not None and share.interval is not None:
            ends = ", ".join(f"{end:.0%}" for end in share.interval)
            lines.append(f"  {share.name}: {share.share:.0%} of the change [{ends}]")
    if split.next_cells:
        lines.append("  run next: " + "; ".join(_next(split)))
    return lines


def _next(split: OutcomeSplit) -> Iterable[str]:
    for cell in split.next_cells[:3]:
        cost = "" if cell.cost_s is None else f", {cell.cost_s:.0f} s"
        decides = f", decides {', '.join(cell.decides)}" if cell.decides else ""
        yield f"{cell.cell} (bounds narrow by {100 * cell.width_removed:.0f} points{decides}{cost})"


def _rows(terms: Sequence[Estimate], unit: str) -> list[str]:
    width = max(len(term.name) for term in terms)
    return [f"    {term.name:<{width}}  {_value(term, unit)}" for term in terms]


def _value(term: Estimate, unit: str) -> str:
    interval = "no interval"
    if term.interval is not None:
        lo, hi = (show(end, unit) for end in term.interval)
        interval = f"[{lo}, {hi}]"
    floor = "?" if term.noise_floor is None else show(term.noise_floor, unit, signed=False)
    few = "; few items" if term.few_items else ""
    if term.estimate is None:
        value = " to ".join(show(end, unit) for end in term.bounds)
    else:
        value = show(term.estimate, unit)
    return f"{value}  {interval}  n={term.n}  floor {floor}  {term.verdict}{few}"


def _cells(found: Attribution) -> list[str]:
    return ["cells", *(f"  {c.state:<10} {c.cell} x{c.replicates}" for c in found.corners)]


def _flips(found: Attribution) -> list[str]:
    test = found.flips
    if test is None:
        return []
    return [
        f"flips: {test.right_to_wrong} right to wrong, {test.wrong_to_right} wrong to right "
        f"(McNemar mid-p {test.mid_p:.4g}, exact {test.exact:.4g}); {test.ties} at ties, "
        f"{test.extraction_only} by extraction only, {test.other_changes} other changed answers"
    ]


def _classes(found: Attribution) -> list[str]:
    if found.classes is None:
        return []
    counts = ", ".join(f"{c.name} {c.items}" for c in found.classes.counts)
    return [f"item classes ({found.classes.level}): {counts}"]


def _mechanism(found: Attribution) -> list[str]:
    lines = []
    for pair in found.mechanism:
        wide = "" if pair.too_wide is None else f", {pair.too_wide:.0%} too wide for the platform"
        churn = ""
        if pair.expected_churn is not None and pair.observed_churn is not None:
            churn = f"; churn {pair.expected_churn:.1%} expected, {pair.observed_churn:.1%} seen"
        flips = f"{pair.predicted_flips:.0f} token flips expected, {pair.observed_flips} seen"
        lines.append(
            f"mechanism {pair.player}: tau {pair.tau_nats:.3g} nats over {pair.positions} tokens; "
            f"{flips}{wide}{churn}"
        )
    return lines
