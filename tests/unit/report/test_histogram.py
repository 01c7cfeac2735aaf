"""Bins hold every value once, the same in Python and in SQL, and floors come from both cells."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from sameweights.attribution.noise import upper_limit_if_identical
from sameweights.report.divergence import POSITIONS
from sameweights.report.histogram import Spread, noise_floor, wilson
from sameweights.report.margins import MARGINS, TIE

VALUES = [0.0, 5e-324, 0.01, 0.0299, 0.5, 1.0, 1.5, 2.9, 3.0, 7.99, 80.0, 256.0, 1e9]


@pytest.mark.parametrize("spread", [POSITIONS, MARGINS])
def test_every_value_is_in_one_bin(spread: Spread) -> None:
    values = np.array(VALUES)
    held = np.array([one.holds(values) for one in spread.bins])
    assert (held.sum(axis=0) == 1).all()
    with duckdb.connect() as db:
        for one, own in zip(spread.bins, held, strict=True):
            query = f"SELECT {one.sql('v')} FROM (SELECT unnest(?::DOUBLE[]) AS v)"
            assert [hit for (hit,) in db.execute(query, [VALUES]).fetchall()] == own.tolist()


def test_smallest_margin_above_a_tie_is_no_tie() -> None:
    tie, near = MARGINS.bins[0], MARGINS.bins[1]
    assert tie.name == TIE
    assert tie.holds(np.array([5e-324, 0.0])).tolist() == [False, True]
    assert near.holds(np.array([5e-324, 0.0])).tolist() == [True, False]


def test_floor_is_the_mean_of_the_cells_that_were_run_twice() -> None:
    assert noise_floor([]) == {"noise_floor": None, "noise_floor_hi": None}
    floor = noise_floor([(100, 0.0), (50, 5.0)])
    assert floor["noise_floor"] == pytest.approx(0.05)
    # Wilson's limit of 5 of 50, from its formula with z = 1.959964.
    assert floor["noise_floor_hi"] == pytest.approx(0.21360, abs=1e-4)
    assert noise_floor([(100, 0.0)])["noise_floor_hi"] == upper_limit_if_identical(100)


def test_share_of_nothing_is_unknown() -> None:
    assert wilson(0, 0) == {"estimate": None, "lo": None, "hi": None}
