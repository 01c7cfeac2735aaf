"""Item classes: which switches change an item's answer, by its minimal flipping sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.estimates import point_estimates
from sameweights.attribution.inference import measure, plan_sampling, wilson
from sameweights.attribution.lattice import Lattice
from sameweights.attribution.outcomes import OutcomeError
from sameweights.attribution.results import (
    FEW_CONTRIBUTING,
    ClassCount,
    Classes,
    Estimate,
)
from sameweights.attribution.view import View

STABLE = "stable"
TRANSIENT = "transient"


def classify(view: View, level: str) -> Classes:
    """Class of every item at a churn level, class counts, sufficiency and necessity per player.

    Cells with replicates are represented by their first run.
    """
    changed = changes(view, level)
    patterns, inverse = np.unique(changed, axis=0, return_inverse=True)
    names = [name_pattern(view, row) for row in patterns]
    labels = np.array(names, dtype=object)[inverse.reshape(-1)]
    found, counts = np.unique(labels.astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return Classes(
        level=level,
        counts=tuple(
            ClassCount(
                str(found[k]), int(counts[k]), counts[k] / view.n, wilson(counts[k], view.n), view.n
            )
            for k in order
        ),
        sufficiency=_sufficiency(view, changed),
        necessity=_necessity(view, changed),
        labels=tuple(labels),
        items=view.table.keys,
    )


def changes(view: View, level: str) -> NDArray[np.bool_]:
    """[n, C]: does the first run of each run corner answer differently from the reference?"""
    codes = view.table.codes[level]
    rows = [view.rows[mask][0] for mask in view.masks]
    if (codes[rows] < 0).any():
        raise OutcomeError(f"classes at level {level!r}: some scored items have no stored answer")
    return np.asarray((codes[rows] != codes[rows[0]]).T)


def name_pattern(view: View, changed: NDArray[np.bool_]) -> str:
    """Class of one pattern of changes over the run corners.

    A minimal flipping set changes the answer and none of its feasible subsets does; it is named by
    its tops ("device x precision" = only jointly), alternatives joined by "|". Where a subset was
    not run, the players that may be the cause stand in brackets.
    """
    lattice = view.lattice
    state = dict(zip(view.masks, changed.tolist(), strict=True))
    if not state[lattice.full]:
        return TRANSIENT if any(state.values()) else STABLE
    flipping = [mask for mask, flips in state.items() if flips]
    minimal = [m for m in flipping if not any(sub & m == sub and sub != m for sub in flipping)]
    minimal.sort(key=lambda mask: (len(lattice.tops(mask)), lattice.tops(mask)))
    names = dict.fromkeys(_name_set(lattice, mask, state) for mask in minimal)
    return "|".join(sorted(names, key=lambda name: name.startswith("[")))


def _small_first(mask: int) -> tuple[int, int]:
    return mask.bit_count(), mask


def _name_set(lattice: Lattice, mask: int, state: dict[int, bool]) -> str:
    below = [sub for sub in lattice.family if sub & mask == sub and sub != mask]
    if all(sub in state for sub in below):
        return " x ".join(lattice.names[j] for j in lattice.tops(mask))
    quiet = [sub for sub in below if sub in state]
    largest = [sub for sub in quiet if not any(sub & o == sub and sub != o for o in quiet)]
    suspects = 0
    for sub in largest:
        suspects |= mask & ~sub
    return f"[{'+'.join(lattice.members(suspects))}]"


def _earliest_switch(lattice: Lattice, j: int) -> tuple[int, int]:
    """Corners (without, with) of player j's first feasible switch; (none, j) where j is free."""
    edges = [(low, high) for low, high, player in lattice.edges() if player == j]
    return min(edges, key=lambda edge: _small_first(edge[1]))


def _largest_without(lattice: Lattice, j: int) -> int:
    """The largest feasible corner that leaves player j at the reference."""
    return max((m for m in lattice.family if not m >> j & 1), key=lambda m: (m.bit_count(), -m))


def _sufficiency(view: View, changed: NDArray[np.bool_]) -> tuple[Estimate, ...]:
    """P(the player's own switch changes the answer | changed at the target), per player."""
    terms = []
    for j, name in enumerate(view.lattice.names):
        low, high = _earliest_switch(view.lattice, j)
        event = None
        if low in view.lattice.run and high in view.lattice.run:
            event = _at(view, changed, high) & ~_at(view, changed, low)
        terms.append(_given_changed(name, event, view, changed))
    return tuple(terms)


def _necessity(view: View, changed: NDArray[np.bool_]) -> tuple[Estimate, ...]:
    """P(unchanged in the largest corner without the player | changed at the target)."""
    terms = []
    for j, name in enumerate(view.lattice.names):
        without = _largest_without(view.lattice, j)
        event = ~_at(view, changed, without) if without in view.lattice.run else None
        terms.append(_given_changed(name, event, view, changed))
    return tuple(terms)


def _at(view: View, changed: NDArray[np.bool_], mask: int) -> NDArray[np.bool_]:
    return np.asarray(changed[:, view.masks.index(mask)])


def _given_changed(
    name: str, event: NDArray[np.bool_] | None, view: View, changed: NDArray[np.bool_]
) -> Estimate:
    at_target = _at(view, changed, view.lattice.full)
    n = int(at_target.sum())
    if event is None or n == 0:
        return Estimate(name, None, None, (0.0, 1.0), "not identified", n, 0, True)
    clusters = view.table.clusters
    sampling = plan_sampling(
        view.table.strata[at_target], None if clusters is None else clusters[at_target]
    )
    means = measure(event[at_target].astype(np.float64)[:, None], sampling)
    (estimate,) = point_estimates([name], means, limits=[(0.0, 1.0)])
    return replace(estimate, few_items=n < FEW_CONTRIBUTING)
