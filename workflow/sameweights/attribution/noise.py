"""The noise floor: what an unchanged cell does between its replicates."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from sameweights.attribution.inference import Floats, measure
from sameweights.attribution.outcomes import churn_level_of, disagreement
from sameweights.attribution.results import NoiseFloor
from sameweights.attribution.table import Codes
from sameweights.attribution.view import View

MAX_SPLITS = 252
"""All ways to split 5 + 5 replicates; with more replicates a random choice of this many."""

ALPHA = 0.05


def upper_limit_if_identical(n: int) -> float:
    """95% upper limit of the share of items that differ when none of n did: 1 - 0.05^(1/n)."""
    return float(1 - ALPHA ** (1 / n))


def noise_floor(name: str, view: View) -> NoiseFloor:
    """The outcome's statistic between replicates, mean over reference and target.

    Churn: share of replicate pairs that disagree. Directed flips: half of the pairs that disagree
    in correctness. Score and other metrics: mean absolute difference of the two means. A cell
    that was run once has none; then the other one's stands alone, or the floor is unknown (None).
    """
    ends = dict.fromkeys((0, view.lattice.full))
    per_item = {mask: _replicate_differences(name, view, mask) for mask in ends}
    known = {mask: rows for mask, rows in per_item.items() if len(rows)}
    pairs = sum(len(rows) for rows in known.values())
    if not known:
        reading = "no cell was replicated: the noise floor is unknown, not zero"
        return NoiseFloor(None, None, 0, view.n, readings=(reading,))
    signed = name not in _COUNTED and not name.startswith("churn")
    cells = {
        view.lattice.cell(mask): float(np.mean(np.abs(d.mean(axis=1)) if signed else d.mean()))
        for mask, d in known.items()
    }
    value = float(np.mean(list(cells.values())))
    if not any(d.any() for d in known.values()):
        upper: float | None = upper_limit_if_identical(view.n)
        readings: tuple[str, ...] = (
            f"replicates are identical on these {view.n} items: any difference here is real",
            f"on similar items up to {upper:.2%} could still differ between replicates, "
            "and the intervals speak of similar items",
        )
    else:
        upper = _upper(np.concatenate(list(known.values())), view, signed)
        readings = ("differences of the size of the noise floor are what a rerun alone gives",)
    p_value = _beyond_noise(name, view) if name.startswith("churn") else None
    return NoiseFloor(value, upper, pairs, view.n, cells, readings, p_value)


_COUNTED = ("right_to_wrong", "wrong_to_right")


def _replicate_differences(name: str, view: View, mask: int) -> Floats:
    """[pairs, n]: what each replicate pair of a corner contributes per item."""
    pairs = view.pairs_within(mask)
    if not pairs:
        return np.zeros((0, view.n))
    if name.startswith("churn"):
        level = churn_level_of(name, view.table)
        return np.stack([disagreement(view, level, [pair]) for pair in pairs])
    source = view.table.extras.get(name, view.table.values)
    differences = np.stack([source[i] - source[j] for i, j in pairs])
    return np.abs(differences) / 2 if name in _COUNTED else differences


def _upper(differences: Floats, view: View, signed: bool) -> float | None:
    """95% upper limit of the floor; of its size, where differences [pairs, n] have signs."""
    columns = differences.T if signed else differences.mean(axis=0)[:, None]
    intervals = measure(columns, view.sampling).intervals()
    ends = [max(abs(low), abs(high)) for low, high in filter(None, intervals)]
    return float(np.mean(ends)) if ends else None


def _beyond_noise(name: str, view: View) -> float | None:
    """Permutation p value of the churn between reference and target, or None if not testable."""
    full = view.lattice.full
    if full == 0 or view.table.seeds != "replicate" or not view.pairs_within(0):
        return None
    codes = view.table.codes[churn_level_of(name, view.table)]
    return permutation_test(codes[list(view.rows[0])], codes[list(view.rows[full])])


def permutation_test(reference: Codes, target: Codes, draws: int = 4999, seed: int = 0) -> float:
    """P value of excess churn under exchange of replicate labels inside each item.

    reference [a, n], target [b, n] answer codes, a + b >= 3. Statistic: mean disagreement across
    cells, which rises and falls with the excess when labels move. Seeded.
    """
    codes = np.concatenate([reference, target])
    moving = (codes != codes[0]).any(axis=0)
    if not moving.any():
        return 1.0
    a, total = len(reference), len(codes)
    rng = np.random.default_rng(seed)
    splits = _splits(a, total, rng)
    differ = codes[:, None, moving] != codes[None, :, moving]
    statistic = np.stack([_excess(differ, list(split), total) for split in splits])
    observed = statistic[0].sum()
    # Items of one pattern are exchangeable: drawing how often each split falls is enough.
    patterns, counts = np.unique(statistic.round(12), axis=1, return_counts=True)
    even = np.full(len(splits), 1 / len(splits))
    permuted = np.zeros(draws)
    for pattern, count in zip(patterns.T, counts, strict=True):
        permuted += rng.multinomial(count, even, size=draws) @ pattern
    reached = int((permuted >= observed - 1e-9).sum())
    return (1 + reached) / (1 + draws)


def _splits(a: int, total: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Ways to choose which runs are called reference; the real one first."""
    every = list(combinations(range(total), a)) if total <= 12 else []
    if 0 < len(every) <= MAX_SPLITS:
        return every
    drawn = [tuple(sorted(rng.permutation(total)[:a].tolist())) for _ in range(MAX_SPLITS)]
    return [tuple(range(a)), *drawn]


def _excess(
    differ: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], ours: list[int], total: int
) -> Floats:
    theirs = [run for run in range(total) if run not in ours]
    across = differ[np.ix_(ours, theirs)].mean(axis=(0, 1))
    within = [_within(differ, group) for group in (ours, theirs) if len(group) > 1]
    floor: Floats = np.mean(within, axis=0)
    return np.asarray(across - floor)


def _within(differ: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], group: list[int]) -> Floats:
    k = len(group)
    return np.asarray(differ[np.ix_(group, group)].sum(axis=(0, 1)) / (k * (k - 1)))
