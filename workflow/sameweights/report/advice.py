"""What to run next: never a cell whose rerun would end the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sameweights.report.wording import short

SETTLED = {
    "stopped": "was stopped",
    "refused": "was refused",
    "excluded": "is excluded",
}
"""States that another run with the same settings does not change, as words."""


@dataclass(frozen=True)
class Hole:
    """A cell without numbers: the state that the matrix shows, and why."""

    state: str
    reason: str


def advise_end(cell: str, hole: Hole) -> str:
    """The next step where an end of the comparison has no numbers."""
    if hole.state not in SETTLED:
        return f"Run {short(cell)} next."
    repair = {
        "stopped": "make it pass its check",
        "refused": "sign or replace what was refused",
        "excluded": "take it into the matrix",
    }
    return (
        f"{short(cell)} {SETTLED[hole.state]}, and the same run again ends the same way: "
        f"{repair[hole.state]}, or compare with another cell."
    )


def advise_next(ranked: Sequence[Mapping[str, Any]], holes: Mapping[str, Hole]) -> str:
    """The most telling cell that can give numbers, and what stands in the way of better ones.

    `ranked`: next cells of an outcome, best first, named model/device/backend/precision.
    """
    known = {short(cell): hole for cell, hole in holes.items() if hole.state in SETTLED}
    names = [short(entry["cell"]) for entry in ranked]
    blocked: list[str] = []
    for name in names:
        if name not in known:
            return " ".join([f"Run {name} next.", *blocked])
        hole = known[name]
        blocked.append(f"{name} would tell too, but {SETTLED[hole.state]}: {hole.reason}.")
    if blocked:
        blocked.append("No cell that can run tells more: repair one of these.")
    return " ".join(blocked)
