"""Facts of runs stand in for their rows: what is left unread changes nothing."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from sameweights.attribution.bridge import find_bridge
from sameweights.attribution.table import Run
from sameweights.attribution.warehouse_runs import RunFacts, between, comparable, needed_cells

GRID = list(product("m", "abc", "xyz", "pq"))
ENDS = (("m", "a", "x", "p"), ("m", "b", "y", "q"))


def facts(cell: tuple[str, ...], mark: int = 0, low: float | None = 0.0, seed: int = 0) -> RunFacts:
    return RunFacts(Run(cell, 0, seed), (1, mark, mark), low, low, frozenset())


@given(st.sets(st.sampled_from(GRID), max_size=18))
def test_the_chain_is_the_same_among_the_needed_cells(cells: set[tuple[str, ...]]) -> None:
    known = sorted(cells | set(ENDS))
    needed = needed_cells([facts(cell) for cell in known], ENDS)
    assert find_bridge(sorted(needed), *ENDS) == find_bridge(known, *ENDS)
    assert {cell for cell in known if between(ENDS, cell)} <= needed


def test_a_chain_leads_only_over_comparable_cells_with_a_score() -> None:
    good = [("m", "a", "z", "p"), ("m", "b", "z", "p"), ("m", "b", "z", "q")]
    runs = [facts(cell) for cell in (*ENDS, *good)]
    assert set(good) <= needed_cells(runs, ENDS)
    for spoilt in (facts(good[1], mark=7), facts(good[1], low=None), facts(good[1], seed=5)):
        others = [f for f in runs if f.run.levels != good[1]]
        assert needed_cells([*others, spoilt], ENDS) == set(ENDS)


def test_runs_are_comparable_within_their_seed() -> None:
    cell = ("m", "c", "x", "p")
    reference = [facts(ENDS[0], mark=1), facts(ENDS[0], mark=2, seed=1)]
    runs = [facts(cell, mark=1), facts(cell, mark=1, seed=1), facts(cell, mark=2, seed=2)]
    assert comparable([*reference, *runs], ENDS[0]) == [*reference, runs[0]]
