"""Which pairs of cells are compared: all of a small matrix, the neighbours of a large one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

MAX_COMPLETE_CELLS = 24
"""Measured cells of one model and seed up to which every pair is compared: 276 pairs."""

CellPair = tuple[str, str]


def choose_pairs(
    cells: Iterable[str], reference: str, target: str, requested: Sequence[CellPair] = ()
) -> list[CellPair]:
    """Return pairs of different cells of one model and seed, the reference first.

    `reference`, `target` and `requested` name cells as device/backend/precision. Of more than
    MAX_COMPLETE_CELLS cells: every cell with the reference, the target with the cells that differ
    from it in one factor, and the requested pairs. All pairs of 2,000 cells would be 2 million.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in sorted(cells, key=lambda cell: (middle(cell) != reference, cell)):
        groups.setdefault((cell.split("/")[0], cell.split("/")[-1]), []).append(cell)
    chosen: list[CellPair] = []
    for group in groups.values():
        if len(group) <= MAX_COMPLETE_CELLS:
            chosen += combinations(group, 2)
        else:
            chosen += dict.fromkeys(_neighbours(group, reference, target, requested))
    return chosen


def _neighbours(
    group: Sequence[str], reference: str, target: str, requested: Sequence[CellPair]
) -> Iterator[CellPair]:
    place = {middle(cell): n for n, cell in enumerate(group)}
    wanted = [(reference, middle(cell)) for cell in group]
    wanted += [(middle(cell), target) for cell in group if _differ_in_one(middle(cell), target)]
    for one, other in [*wanted, *requested]:
        if one in place and other in place and one != other:
            first, second = sorted((place[one], place[other]))
            yield group[first], group[second]


def _differ_in_one(one: str, other: str) -> bool:
    return sum(a != b for a, b in zip(one.split("/"), other.split("/"), strict=True)) == 1


def middle(cell: str) -> str:
    """device/backend/precision of a cell id."""
    return "/".join(cell.split("/")[1:4])
