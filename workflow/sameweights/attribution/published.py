"""What can be said from published totals alone: counts per cell, no item-level files.

It answers with the same honesty as the item-level split: what is known, what is refused, which
cell to run, and what an unstated reference can be worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sameweights.attribution import rules as rule_book
from sameweights.attribution.capability import Capability
from sameweights.attribution.inference import bonett_price, wilson
from sameweights.attribution.lattice import Lattice, build_lattice
from sameweights.attribution.next_cells import rank_next_cells
from sameweights.attribution.power import HALF_POINT, detectable_change, items_needed
from sameweights.attribution.results import Interval, NextCell, Verdict, clean


@dataclass(frozen=True)
class CellTotals:
    """One run cell against the reference.

    `changed`: items whose answer differs. `net_items`: wrong-to-right minus right-to-wrong items,
    None when not published. `score_at_most`: largest |change of the score| that was stated
    (proportion), where the net itself was not.
    """

    changed: int
    net_items: int | None = None
    score_at_most: float | None = None


@dataclass(frozen=True)
class FlipRange:
    """Correctness flips that a net change and a number of changed answers allow.

    `narrow`, `wide`: intervals of the score change at the fewest and the most flips.
    """

    fewest: int
    most: int
    narrow: Interval
    wide: Interval
    excludes_zero_either_way: bool


@dataclass(frozen=True)
class CellReading:
    """A cell against the reference, as far as its totals tell.

    `score_interval`: widest interval of the score change that the totals allow.
    """

    cell: str
    churn: float
    churn_interval: Interval
    score: float | None
    score_interval: Interval
    flips: FlipRange | None
    detectable: float | None
    items_for_half_point: int | None


@dataclass(frozen=True)
class Block:
    """Churn of one step along the run cells, known only as a range: churn is a metric."""

    name: str
    step_churn: Interval
    verdict: Verdict


@dataclass(frozen=True)
class UnstatedReference:
    """What it can change if the published reference was the other cell.

    `churn`: range of the target's churn against it. `score`: largest change of the difference.
    """

    other: str
    churn: Interval
    score: float | None


@dataclass(frozen=True)
class PublishedReading:
    """Everything that the totals allow. See `to_dict` of Attribution for the meaning of fields."""

    reference: str
    target: str
    n: int
    cells: tuple[CellReading, ...]
    blocks: tuple[Block, ...]
    refused: tuple[str, ...]
    next_cells: tuple[NextCell, ...]
    unstated: tuple[UnstatedReference, ...]
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-clean dict of all fields."""
        record: dict[str, Any] = clean(self)
        return record


def flip_range(net_items: int, changed: int, n: int) -> FlipRange:
    """Fewest and most flips behind a net change when `changed` answers differ.

    The most has the parity of the net and is at most `changed`; intervals are Bonett and Price's.
    """
    fewest = abs(net_items)
    most = changed - (changed - fewest) % 2
    ends = []
    for flips in (fewest, most):
        gained, lost = (flips + net_items) // 2, (flips - net_items) // 2
        ends.append(bonett_price(gained, lost, n))
    clear = all(low > 0 or high < 0 for low, high in ends)
    return FlipRange(fewest, most, ends[0], ends[1], clear)


def churn_against_other(known: float, step: float) -> Interval:
    """Churn against another reference that differs from the stated one by `step` (a metric)."""
    return abs(known - step), min(known + step, 1.0)


def read_published(
    factors: Sequence[str],
    n: int,
    reference: str,
    target: str,
    totals: Mapping[str, CellTotals],
    rules: Iterable[Capability] = (),
) -> PublishedReading:
    """Read published totals of n items; `totals` has the target and any other run cell by label.

    Raises LatticeError when the cells and rules make no lattice.
    """
    levels = {label: tuple(label.split("/")) for label in (reference, *totals)}
    lattice = build_lattice(
        factors, levels[reference], levels[target], levels.values(), tuple(rules)
    )
    headline = rule_book.headline(lattice)
    refused = tuple(
        name
        for name, contrast in headline.items()
        if any(mask not in lattice.run for mask in contrast)
    )
    fair = rule_book.fair_shares(lattice)
    cells = tuple(_read_cell(label, totals[label], n) for label in totals)
    following = rank_next_cells(lattice, headline, fair, 1.0, {})
    blocks = tuple(_blocks(lattice, totals, n))
    unstated = tuple(
        UnstatedReference(
            label,
            churn_against_other(totals[target].changed / n, other.changed / n),
            _score_size(other, n),
        )
        for label, other in totals.items()
        if label != target
    )
    verdict = _say(cells, target, blocks, refused, following, unstated)
    return PublishedReading(
        reference, target, n, cells, blocks, refused, following, unstated, verdict
    )


def _read_cell(label: str, cell: CellTotals, n: int) -> CellReading:
    flips = None if cell.net_items is None else flip_range(cell.net_items, cell.changed, n)
    widest = flips.wide if flips else flip_range(0, cell.changed, n).wide
    share = (flips.fewest if flips else cell.changed) / n
    return CellReading(
        cell=label,
        churn=cell.changed / n,
        churn_interval=wilson(cell.changed, n),
        score=None if cell.net_items is None else cell.net_items / n,
        score_interval=widest,
        flips=flips,
        detectable=detectable_change(n, share),
        items_for_half_point=items_needed(HALF_POINT, share),
    )


def _score_size(cell: CellTotals, n: int) -> float | None:
    return cell.score_at_most if cell.net_items is None else abs(cell.net_items) / n


def _blocks(lattice: Lattice, totals: Mapping[str, CellTotals], n: int) -> Iterable[Block]:
    """Step churns along the finest chain of run cells: a point from the reference, then ranges."""
    chain = rule_book.finest_run_chain(lattice)
    for low, high in pairwise(chain):
        name = "+".join(lattice.members(high & ~low))
        there = totals[lattice.cell(high)].changed / n
        here = 0.0 if low == 0 else totals[lattice.cell(low)].changed / n
        step = churn_against_other(there, here)
        yield Block(name, step, "identified" if low == 0 else "partially identified")


def _say(
    cells: Sequence[CellReading],
    target: str,
    blocks: Sequence[Block],
    refused: Sequence[str],
    following: Sequence[NextCell],
    unstated: Sequence[UnstatedReference],
) -> str:
    at_target = next(cell for cell in cells if cell.cell == target)
    low, high = at_target.churn_interval
    text = f"{at_target.churn:.1%} of the answers change [{low:.1%}, {high:.1%}]"
    if at_target.flips is not None and at_target.score is not None:
        ends = (min(at_target.flips.wide), max(at_target.flips.wide))
        sure = "either way" if at_target.flips.excludes_zero_either_way else "not in every case"
        text += (
            f" and the score by {100 * at_target.score:+.1f} points "
            f"[{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f} at worst], a change {sure}"
        )
    if refused:
        joint = [block.name for block in blocks if "+" in block.name]
        what = f"{' and '.join(joint)} cannot be separated" if joint else "the split is refused"
        text += f"; {what}: {', '.join(refused)} refused"
        if following:
            text += f", run {following[0].cell}"
    for other in unstated:
        size = "unknown" if other.score is None else f"{100 * other.score:.1f}"
        text += (
            f"; if the reference was {other.other}, churn lies in "
            f"[{other.churn[0]:.1%}, {other.churn[1]:.1%}] and the score moves by at most {size}"
        )
    return text + "."
