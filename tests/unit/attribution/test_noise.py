"""Noise floor, excess churn, permutation test: what replicates do."""

from __future__ import annotations

import numpy as np
import pytest
from attribution_tables import table_of

from sameweights.attribution.api import attribute
from sameweights.attribution.noise import permutation_test, upper_limit_if_identical
from sameweights.attribution.outcomes import OutcomeError

R, T = "mac/torch/fp16", "mac/torch/int8"


def draws(rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """One answer per item from its own distribution [n, answers]."""
    cuts = probabilities.cumsum(axis=1)
    return (rng.random((len(probabilities), 1)) > cuts).sum(axis=1)


def noisy_table(seed: int, n: int = 400, shift: float = 0.0, replicates: int = 2) -> object:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3) * 0.4, n)
    other = (1 - shift) * p + shift * rng.dirichlet(np.ones(3) * 0.4, n)
    answers = {}
    for k in range(replicates):
        answers[f"{R}#{k}"] = draws(rng, p)
        answers[f"{T}#{k}"] = draws(rng, other)
    return table_of({c: (a == 0).astype(float) for c, a in answers.items()}, answers)


def test_excess_plus_floor_is_the_raw_churn() -> None:
    found = attribute(noisy_table(1, shift=0.3), R, T)  # type: ignore[arg-type]
    split = found.outcomes["churn_excess"]
    parts = sum(term.estimate or 0.0 for term in split.headline)
    assert split.raw_total is not None and split.raw_total.estimate is not None
    assert split.noise.value is not None
    assert parts + split.noise.value == pytest.approx(split.raw_total.estimate, abs=1e-12)
    assert found.outcomes["churn"].total.estimate == pytest.approx(split.raw_total.estimate)


def test_excess_is_half_the_squared_distance_and_unbiased_with_two_replicates() -> None:
    rng = np.random.default_rng(2)
    p, q = np.array([[0.7, 0.2, 0.1]]), np.array([[0.4, 0.5, 0.1]])
    truth = 0.5 * ((p - q) ** 2).sum()
    n = 60_000
    answers = {
        f"{cell}#{k}": draws(rng, np.repeat(d, n, axis=0))
        for cell, d in ((R, p), (T, q))
        for k in range(2)
    }
    found = attribute(table_of(answers), R, T, outcomes=["churn_excess"])
    assert found.outcomes["churn_excess"].total.estimate == pytest.approx(truth, abs=0.01)


def test_unchanged_cell_stays_inside_its_noise_floor() -> None:
    inside = 0
    for seed in range(100):
        total = attribute(noisy_table(seed, n=150), R, T, outcomes=["churn_excess"])  # type: ignore[arg-type]
        interval = total.outcomes["churn_excess"].total.interval
        assert interval is not None
        inside += interval[0] <= 0 <= interval[1]
    assert inside >= 90


def test_comparison_of_two_replicates_of_one_cell() -> None:
    table = noisy_table(3)
    found = attribute(table, f"{R}#0", f"{R}#1")  # type: ignore[arg-type]
    split = found.outcomes["churn"]
    assert split.noise.value == pytest.approx(split.total.estimate)
    assert found.players == ("replicate",)
    assert split.total.noise_floor is not None


def test_identical_replicates_have_floor_zero_with_an_upper_limit() -> None:
    same = np.arange(250) % 2
    found = attribute(
        table_of({f"{R}#0": same, f"{R}#1": same, f"{T}#0": same, f"{T}#1": same}), R, T
    )
    noise = found.outcomes["churn"].noise
    assert noise.value == 0.0
    assert (
        noise.upper
        == pytest.approx(upper_limit_if_identical(250))
        == pytest.approx(0.0119, abs=1e-4)
    )
    assert len(noise.readings) == 2


def test_floor_without_replicates_is_unknown_not_zero() -> None:
    table = table_of({R: np.zeros(20), T: np.ones(20)})
    found = attribute(table, R, T)
    assert found.outcomes["churn"].noise.value is None
    assert "churn_excess" not in found.outcomes
    assert any("churn_excess left out" in note for note in found.notes)
    with pytest.raises(OutcomeError, match="no replicates"):
        attribute(table, R, T, outcomes=["churn_excess"])


def test_permutation_test_is_calibrated_and_has_power() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(3), 120)
    null = []
    for _ in range(120):
        runs = np.stack([draws(rng, p) for _ in range(4)])
        null.append(permutation_test(runs[:2], runs[2:], draws=199))
    assert np.mean(np.array(null) <= 0.1) <= 0.2
    far = rng.dirichlet(np.ones(3), 120)
    ours, theirs = (np.stack([draws(rng, d) for _ in range(2)]) for d in (p, far))
    assert permutation_test(ours, theirs, draws=999) < 0.01
    assert permutation_test(ours[:1].repeat(2, 0), ours[:1].repeat(2, 0)) == 1.0


def test_scores_average_the_replicates() -> None:
    table = table_of({f"{R}#0": [1, 1, 0, 0], f"{R}#1": [1, 0, 0, 0], T: [0, 0, 0, 0]})  # type: ignore[dict-item]
    found = attribute(table, R, T, outcomes=["score", "right_to_wrong", "wrong_to_right"])
    assert found.outcomes["score"].total.estimate == pytest.approx(-0.375)
    lost, won = (found.outcomes[k].total.estimate for k in ("right_to_wrong", "wrong_to_right"))
    assert (won or 0.0) - (lost or 0.0) == pytest.approx(-0.375, abs=1e-12)
