"""A bridge: single-factor steps over cells with other levels, where factors are inseparable.

mac/mlx -> jetson/trtllm cannot be split on its own lattice, but mac/mlx -> mac/torch ->
jetson/torch -> jetson/trtllm telescopes to the same total.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from sameweights.attribution.estimates import point_estimates
from sameweights.attribution.inference import measure, plan_sampling
from sameweights.attribution.lattice import Levels
from sameweights.attribution.results import PathSplit
from sameweights.attribution.table import ItemTable, TableError


def find_bridge(cells: Sequence[Levels], reference: Levels, target: Levels) -> list[Levels] | None:
    """Shortest chain of run cells in which each step changes one factor, or None."""
    came_from: dict[Levels, Levels | None] = {reference: None}
    queue = deque([reference])
    while queue:
        cell = queue.popleft()
        if cell == target:
            return _walk_back(came_from, target)
        for other in sorted(cells):
            if other not in came_from and _distance(cell, other) == 1:
                came_from[other] = cell
                queue.append(other)
    return None


def _walk_back(came_from: Mapping[Levels, Levels | None], target: Levels) -> list[Levels]:
    chain = [target]
    while (previous := came_from[chain[-1]]) is not None:
        chain.append(previous)
    return chain[::-1]


def _distance(a: Levels, b: Levels) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


def split_bridge(table: ItemTable, chain: Sequence[Levels]) -> PathSplit:
    """Score differences along a chain of run cells; they sum to the total exactly.

    Uses the items that every cell of the chain scored; raises TableError when there is none or a
    cell was not run.
    """
    for levels in chain:
        if levels not in table.cells:
            known = sorted("/".join(cell) for cell in table.cells)
            raise TableError(f"path cell {'/'.join(levels)!r} was not run; run cells: {known}")
    rows = [table.cells[levels] for levels in chain]
    scored = np.isfinite(table.values[[r for group in rows for r in group]]).all(axis=0)
    if not scored.any():
        raise TableError("path: no item was scored in every cell")
    values = np.stack([table.values[group][:, scored].mean(axis=0) for group in rows], axis=1)
    clusters = None if table.clusters is None else table.clusters[scored]
    sampling = plan_sampling(table.strata[scored], clusters)
    means = measure(np.diff(values, axis=1), sampling)
    names = [_step_name(table.factors, a, b) for a, b in pairwise(chain)]
    cells = tuple("/".join(levels) for levels in chain)
    return PathSplit(" > ".join(cells), cells, tuple(point_estimates(names, means)))


def _step_name(factors: Sequence[str], a: Levels, b: Levels) -> str:
    moved = [f"{factor} {x}->{y}" for factor, x, y in zip(factors, a, b, strict=True) if x != y]
    return ", ".join(moved)
