"""Which cell to run next: the one that decides most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sameweights.attribution.dividends import Contrast
from sameweights.attribution.lattice import Lattice
from sameweights.attribution.results import NextCell
from sameweights.attribution.rules import finest_run_chain


def rank_next_cells(
    lattice: Lattice,
    headline: Mapping[str, Contrast],
    fair: Mapping[str, Contrast],
    width: float,
    cost_s: Mapping[str, float],
) -> tuple[NextCell, ...]:
    """Possible cells that were not run, by worst-case bound width removed, widest first.

    `width`: range of the outcome. Ties: more separable blocks, more terms decided, more fair-share
    width, lower cost, then name.
    """
    blocks = len(finest_run_chain(lattice))
    cells = []
    for mask in lattice.missing:
        after = replace(lattice, run=lattice.run | {mask})
        decided = [
            name
            for name, contrast in headline.items()
            if mask in contrast and all(other in after.run for other in contrast)
        ]
        cells.append(
            NextCell(
                cell=lattice.cell(mask),
                width_removed=width * _weight(headline, mask),
                fair_share_width_removed=width * _weight(fair, mask),
                decides=tuple(decided),
                separates=len(finest_run_chain(after)) - blocks,
                cost_s=cost_s.get(lattice.cell(mask)),
            )
        )
    return tuple(sorted(cells, key=_rank))


def _weight(contrasts: Mapping[str, Contrast], mask: int) -> float:
    return sum(abs(contrast.get(mask, 0.0)) for contrast in contrasts.values())


def _rank(cell: NextCell) -> tuple[float, int, int, float, float, str]:
    cost = float("inf") if cell.cost_s is None else cell.cost_s
    return (
        -cell.width_removed,
        -cell.separates,
        -len(cell.decides),
        -cell.fair_share_width_removed,
        cost,
        cell.cell,
    )
