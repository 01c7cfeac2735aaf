"""Early stopping: valid at any time, and able to stop."""

from __future__ import annotations

import numpy as np

from sameweights.attribution.sequential import confidence_sequence, early_stop


def flips(rng: np.random.Generator, lost: float, won: float, n: int = 800) -> np.ndarray:
    return rng.choice([-1.0, 0.0, 1.0], n, p=[lost, 1 - lost - won, won])


def test_e_value_stops_on_a_real_drop_and_rarely_without_one() -> None:
    rng = np.random.default_rng(1)
    alarms = sum(early_stop(flips(rng, 0.1, 0.1)).stopped_at is not None for _ in range(300))
    assert alarms / 300 <= 0.07
    stops = [early_stop(flips(rng, 0.15, 0.02)).stopped_at for _ in range(50)]
    assert all(stop is not None and stop < 800 for stop in stops)
    quiet = early_stop(np.zeros(10))
    assert (quiet.e_value, quiet.stopped_at, quiet.n) == (1.0, None, 10)


def test_confidence_sequence_holds_at_every_item() -> None:
    rng = np.random.default_rng(2)
    lost = 0
    for _ in range(200):
        sequence = confidence_sequence(flips(rng, 0.12, 0.08), 800)
        lost += any(low > -0.04 or high < -0.04 for low, high in sequence)
    assert lost / 200 <= 0.05


def test_confidence_sequence_narrows_and_stays_open_without_spread() -> None:
    rng = np.random.default_rng(3)
    sequence = confidence_sequence(flips(rng, 0.1, 0.1), 800)
    widths = [high - low for low, high in sequence]
    assert widths[-1] < widths[100] < widths[10]
    assert all(high > low for low, high in confidence_sequence(np.zeros(20), 20))
