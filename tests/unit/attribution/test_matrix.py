"""The whole-matrix path says the same as one comparison at a time."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from attribution_tables import table_of

from sameweights.attribution.api import attribute
from sameweights.attribution.flips import mcnemar_mid_p
from sameweights.attribution.inference import measure, plan_sampling
from sameweights.attribution.matrix import attribute_all, compare_all, mid_p_of

FACTORS = ("device", "backend", "precision")
CELLS = [tuple(levels) for levels in product(("a", "b"), ("x", "y"), ("p", "q"))]


def world(clustered: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng(1)
    n = 300
    strata = np.sort(rng.integers(0, 3, n))
    right = (rng.random((len(CELLS), n)) < 0.7).astype(float)
    right[:, : n // 2] = right[0, : n // 2]
    codes = np.where(right > 0, 0, rng.integers(1, 4, right.shape)).astype(np.int32)
    clusters = None
    if clustered:
        _, clusters = np.unique(strata * n + np.arange(n) // 3, return_inverse=True)
    return right, codes, strata, clusters


@pytest.mark.parametrize("clustered", [False, True])
def test_pairs_equal_single_comparisons(clustered: bool) -> None:
    right, codes, strata, clusters = world(clustered)
    sampling = plan_sampling(strata, clusters)
    table = compare_all(right, codes, sampling)
    for i, j in ((0, 1), (3, 6), (7, 2)):
        alone = measure((right[j] - right[i])[:, None], sampling)
        assert table.delta[i, j] == pytest.approx(alone.mean[0])
        assert (table.lo[i, j], table.hi[i, j]) == pytest.approx(alone.intervals()[0])
        lost = int(((right[i] == 1) & (right[j] == 0)).sum())
        assert table.right_to_wrong[i, j] == lost
        assert table.mid_p[i, j] == pytest.approx(mcnemar_mid_p(lost, table.right_to_wrong[j, i]))
        moved = (codes[i] != codes[j]).astype(float)
        churn = measure(moved[:, None], sampling)
        assert table.churn[i, j] == moved.sum()
        centre, half = table.churn_centre[i, j], table.churn_half[i, j]
        assert (centre - half, centre + half) == pytest.approx(churn.intervals()[0])


@pytest.mark.parametrize("missing", [None, ("a", "x", "q")])
def test_splits_equal_single_attributions(missing: tuple[str, ...] | None) -> None:
    right, _, strata, _ = world(False)
    kept = [k for k, cell in enumerate(CELLS) if cell != missing]
    cells = [CELLS[k] for k in kept]
    splits = attribute_all(right[kept], cells, FACTORS, CELLS[0], plan_sampling(strata, None))
    assert len(splits) == len(cells) - 1
    split = next(s for s in splits if s.target == CELLS[-1])
    table = table_of({"/".join(CELLS[k]): right[k] for k in kept}, strata=strata)
    found = attribute(table, "a/x/p", "b/y/q", outcomes=["score"]).outcomes["score"]
    alone = [found.total, *found.headline, *found.fair_share]
    assert len(split.terms) == len(alone)
    for k, term in enumerate(alone):
        assert split.bounds[:, k] == pytest.approx(term.bounds)
        if term.estimate is None:
            assert np.isnan(split.estimate[k])
        else:
            assert split.estimate[k] == pytest.approx(term.estimate)
            assert (split.lo[k], split.hi[k]) == pytest.approx(term.interval)
            assert split.contributing[k] == term.contributing


def test_mid_p_of_many_is_that_of_one() -> None:
    b, c = np.meshgrid(np.arange(12), np.arange(12))
    one = [mcnemar_mid_p(int(x), int(y)) for x, y in zip(b.ravel(), c.ravel(), strict=True)]
    assert mid_p_of(b, c).ravel() == pytest.approx(one)


def test_unsorted_items_are_refused() -> None:
    right, codes, strata, _ = world(False)
    with pytest.raises(ValueError, match="sorted"):
        compare_all(right, codes, plan_sampling(strata[::-1].copy(), None))
