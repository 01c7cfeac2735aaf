"""Small matrices are compared completely, large ones along their neighbours."""

from __future__ import annotations

from itertools import product

from sameweights import pairs
from sameweights.pairs import choose_pairs

REFERENCE, TARGET = "d0/t/p0", "d1/t/p1"


def cells(devices: int, precisions: int, model: str = "m") -> list[str]:
    names = product(range(devices), range(precisions))
    return [f"{model}/d{d}/t/p{p}/s0" for d, p in names]


def test_small_matrix_is_complete_and_reference_comes_first() -> None:
    found = choose_pairs(cells(2, 3), REFERENCE, TARGET)
    assert len(set(found)) == len(found) == 15
    assert sum(a == "m/d0/t/p0/s0" for a, _ in found) == 5


def test_cells_of_two_models_or_seeds_are_never_compared() -> None:
    found = choose_pairs([*cells(1, 2), *cells(1, 2, "n")], REFERENCE, TARGET)
    assert [(a.split("/")[0], b.split("/")[0]) for a, b in found] == [("m", "m"), ("n", "n")]


def test_large_matrix_has_the_star_the_targets_neighbours_and_what_was_asked_for() -> None:
    side = pairs.MAX_COMPLETE_CELLS // 2
    asked = [("d5/t/p5", "d4/t/p4"), ("d9/t/absent", "d4/t/p4")]
    found = choose_pairs(cells(side, side), REFERENCE, TARGET, asked)
    assert len(set(found)) == len(found)
    star = [pair for pair in found if pair[0] == "m/d0/t/p0/s0"]
    assert len(star) == side * side - 1
    others = [pair for pair in found if pair not in star]
    # The target's row and column, which the star has not: all but itself.
    assert len(others) == 2 * (side - 1) + 1
    assert ("m/d4/t/p4/s0", "m/d5/t/p5/s0") in others
    assert all("m/d1/t/p1/s0" in pair for pair in others[:-1])
