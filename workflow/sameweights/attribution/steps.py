"""Single steps between neighbouring run cells: score, churn at every level, flips.

Step churns stand beside the net churn and do not add up to it: the gap is items that change again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.estimates import ANYTHING, point_estimates
from sameweights.attribution.flips import (
    benjamini_hochberg,
    e_value,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
)
from sameweights.attribution.inference import Floats, measure
from sameweights.attribution.outcomes import OutcomeError, disagreement, is_binary
from sameweights.attribution.results import Estimate, FlipTest, Interval, Step
from sameweights.attribution.view import View


def run_steps(view: View) -> tuple[Step, ...]:
    """Every feasible single step whose two cells were run, in lattice order."""
    edges = [(a, b, j) for a, b, j in view.lattice.edges() if {a, b} <= view.lattice.run]
    tests = _adjust([flip_test(view, a, b) for a, b, _ in edges])
    return tuple(
        Step(
            player=view.lattice.names[j],
            from_cell=view.lattice.cell(a),
            to_cell=view.lattice.cell(b),
            score=_score_step(view, a, b),
            churn=_churn_step(view, a, b),
            flips=test,
        )
        for (a, b, j), test in zip(edges, tests, strict=True)
    )


def _adjust(tests: Sequence[FlipTest | None]) -> list[FlipTest | None]:
    p = [test.mid_p for test in tests if test is not None]
    family, discovery = iter(holm(p).tolist()), iter(benjamini_hochberg(p).tolist())
    return [
        None if test is None else replace(test, holm=next(family), bh=next(discovery))
        for test in tests
    ]


def flip_test(view: View, a: int, b: int) -> FlipTest | None:
    """McNemar's test between the first runs of two corners; None when the metric is not 0/1."""
    before, after = view.rows[a][0], view.rows[b][0]
    values = view.table.values
    if not is_binary(values[[before, after]]):
        return None
    lost = (values[before] == 1) & (values[after] == 0)
    won = (values[before] == 0) & (values[after] == 1)
    b_count, c_count = int(lost.sum()), int(won.sum())
    changed = _answer_changed(view, before, after)
    ties, extraction = _flag(view, "tie"), _flag(view, "extraction_only")
    return FlipTest(
        from_cell=view.lattice.cell(a),
        to_cell=view.lattice.cell(b),
        n=view.n,
        right_to_wrong=b_count,
        wrong_to_right=c_count,
        exact=mcnemar_exact(b_count, c_count),
        mid_p=mcnemar_mid_p(b_count, c_count),
        e_value=e_value(b_count, c_count),
        ties=int(((lost | won | changed) & (ties[before] | ties[after])).sum()),
        extraction_only=int(((lost & extraction[after]) | (won & extraction[before])).sum()),
        other_changes=int((changed & ~lost & ~won).sum()),
    )


def _answer_changed(view: View, before: int, after: int) -> NDArray[np.bool_]:
    level = view.table.churn_level
    if level is None:
        return np.zeros(view.n, dtype=np.bool_)
    codes = view.table.codes[level]
    return np.asarray(codes[before] != codes[after])


def _flag(view: View, name: str) -> NDArray[np.bool_]:
    none = np.zeros(view.table.values.shape, dtype=np.bool_)
    return view.table.flags.get(name, none)


def _score_step(view: View, a: int, b: int) -> Estimate:
    values = view.table.values
    before, after = (values[list(view.rows[mask])].mean(axis=0) for mask in (a, b))
    floors = view.score_noise(a) + view.score_noise(b)
    return single_estimate("score", after - before, view, floors)


def _churn_step(view: View, a: int, b: int) -> dict[str, Estimate]:
    found = {}
    for level in view.table.codes:
        try:
            moved = disagreement(view, level, view.pairs_across(a, b))
        except OutcomeError:  # this level has no stored answer here: shown as absent
            continue
        floors = [
            float(disagreement(view, level, view.pairs_within(mask)).mean())
            for mask in (a, b)
            if view.pairs_within(mask)
        ]
        found[level] = single_estimate(level, moved, view, floors, (0.0, 1.0))
    return found


def single_estimate(
    name: str,
    contributions: Floats,
    view: View,
    floors: Sequence[float] = (),
    limits: Interval = ANYTHING,
) -> Estimate:
    """Identified estimate of one mean of item contributions [n], its interval inside `limits`."""
    means = measure(contributions[:, None], view.sampling)
    floor = float(np.mean(floors)) if floors else None
    return point_estimates([name], means, floor, [limits])[0]
