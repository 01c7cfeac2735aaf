"""Bounds against brute force over everything that a missing cell could hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from attribution_tables import table_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sameweights.attribution.api import attribute
from sameweights.attribution.bounds import judge
from sameweights.attribution.results import Attribution

CELLS = [
    "mac/torch/fp16",
    "jetson/torch/fp16",
    "jetson/trtllm/fp16",
    "mac/torch/int8",
    "jetson/torch/int8",
    "jetson/trtllm/int8",
]
RULE = ["trtllm needs jetson"]


def split(values: dict[str, np.ndarray], **options: object) -> Attribution:
    return attribute(table_of(values), CELLS[0], CELLS[-1], rules=RULE, **options)  # type: ignore[arg-type]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sets(st.sampled_from(CELLS[1:-1]), min_size=1))
def test_worst_case_contains_the_truth_and_is_reached(seed: int, missing: set[str]) -> None:
    rng = np.random.default_rng(seed)
    full = {cell: rng.integers(0, 2, 12) for cell in CELLS}
    names = ["score", "churn"]
    truth = split(full, outcomes=names)
    seen = split({c: v for c, v in full.items() if c not in missing}, outcomes=names)
    reached: dict[tuple[str, str, str], list[float]] = {}
    extremes = [
        split(
            {**full, **{c: np.full(12, x) for c, x in zip(missing, fill, strict=True)}},
            outcomes=["score"],
        )
        for fill in product((0, 1), repeat=len(missing))
    ]
    for outcome in ("score", "churn"):
        for rule in ("headline", "fair_share", "interactions", "path_average"):
            for term in getattr(seen.outcomes[outcome], rule):
                (value,) = [
                    t.estimate
                    for t in getattr(truth.outcomes[outcome], rule)
                    if t.name == term.name
                ]
                lo, hi = term.bounds
                assert lo - 1e-12 <= value <= hi + 1e-12
                reached[outcome, rule, term.name] = [lo, hi]
    for rule in ("headline", "fair_share"):
        for k, term in enumerate(getattr(seen.outcomes["score"], rule)):
            values = [getattr(e.outcomes["score"], rule)[k].estimate for e in extremes]
            assert reached["score", rule, term.name] == pytest.approx([min(values), max(values)])


def test_envelope_is_inside_the_worst_case() -> None:
    rng = np.random.default_rng(1)
    seen = split({c: rng.integers(0, 2, 100) for c in CELLS if c != "mac/torch/int8"})
    for term in seen.outcomes["score"].headline:
        if term.estimate is None:
            assert term.envelope is not None
            assert term.bounds[0] <= term.envelope[0] <= term.envelope[1] <= term.bounds[1]


def shares(**score: float) -> dict[str, np.ndarray]:
    return {
        cell: (np.arange(100) < round(100 * score[name])).astype(float)
        for cell, name in zip(CELLS, ("r", "p", "pb", "q", "pq", "t"), strict=True)
        if name in score
    }


def test_caps_narrow_the_bounds_and_breakdown_is_where_zero_enters() -> None:
    # r 0.9, p 0.88, pb 0.86, t 0.4: precision on the reference is 0.4..0.92 below or above.
    seen = split(shares(r=0.9, p=0.88, pb=0.86, t=0.4), caps={"device": 0.05, "backend": 0.05})
    term = next(t for t in seen.outcomes["score"].headline if t.name == "precision")
    assert term.bounds == pytest.approx((-0.9, 0.1))
    # q within 0.05 of pq, and pq within 0.05 of t = 0.4.
    assert term.capped == pytest.approx((-0.6, -0.4), abs=1e-9)
    # One cap for all steps must reach |t - pb| = 0.46; at q = r it is |pq - q|, |t - pq| = 0.25.
    assert term.breakdown is None


def test_breakdown_value_of_a_small_drop_along_many_steps() -> None:
    # Steps seen: r-p 0.1, p-pq 0.1 and q missing: 0 enters at q = r, which a cap of 0.2 allows.
    values = shares(r=0.9, p=0.8, pb=0.8, pq=0.7, t=0.7)
    term = next(t for t in split(values).outcomes["score"].headline if t.name == "precision")
    assert term.breakdown == pytest.approx(0.2, abs=1e-9)
    assert split(values, caps={"device": 0.05}).outcomes["score"].headline[2].capped is None


def test_verdicts() -> None:
    assert judge((-0.3, -0.3), -0.4) == "identified"
    assert judge((-0.3, -0.1), -0.4) == "sign identified"
    assert judge((-0.2, 0.8), -0.4) == "partially identified"
    assert judge((-1.0, 0.0), -0.4) == "not identified"


def test_imbens_manski_is_between_one_and_two_sided() -> None:
    rng = np.random.default_rng(2)
    values = {c: (rng.random(400) < 0.6).astype(float) for c in CELLS if c != "mac/torch/int8"}
    term = next(t for t in split(values).outcomes["score"].headline if t.name == "precision")
    assert term.interval is not None
    lower = values["mac/torch/fp16"].mean()
    se = np.sqrt(lower * (1 - lower) / 400)
    one, two = stats.norm.ppf(0.95), stats.norm.ppf(0.975)
    reach = term.bounds[0] - term.interval[0]
    assert one * se * 0.9 <= reach <= two * se * 1.1


def test_next_cell_ranking_names_what_it_decides() -> None:
    seen = split(shares(r=0.9, p=0.88, pb=0.86, t=0.4))
    first, second = seen.outcomes["score"].next_cells
    assert (first.cell, first.width_removed) == ("mac/torch/int8", 2.0)
    assert first.decides == ("precision", "interaction")
    assert second.cell == "jetson/torch/int8"
    assert second.fair_share_width_removed == pytest.approx(1.0)
