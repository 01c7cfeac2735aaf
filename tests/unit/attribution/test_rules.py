"""Rules against brute force: additivity on random lattices, Shapley by permutations."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from attribution_tables import table_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sameweights.attribution import rules
from sameweights.attribution.capability import Rule, feasible
from sameweights.attribution.dividends import Contrast, dividends
from sameweights.attribution.lattice import Lattice, LatticeError, build_lattice

ADDITIVITY = 1e-12


def lattice_of(k: int, needs: set[tuple[int, int]]) -> Lattice:
    """k two-level factors; (i, j) in `needs` means that switching i needs j switched."""
    factors = [f"f{j}" for j in range(k)]
    cells = list(product("01", repeat=k))
    limits = [
        Rule(factors[i], frozenset("1"), factors[j], frozenset("1")) for i, j in needs if i != j
    ]
    run = [cell for cell in cells if feasible(dict(zip(factors, cell, strict=True)), limits)]
    return build_lattice(factors, ("0",) * k, ("1",) * k, run, limits)


def value(contrast: Contrast, v: dict[int, float]) -> float:
    return sum(weight * v[mask] for mask, weight in contrast.items())


@st.composite
def lattices(draw: st.DrawFn) -> Lattice:
    k = draw(st.integers(1, 5))
    pairs = st.tuples(st.integers(0, k - 1), st.integers(0, k - 1))
    return lattice_of(k, draw(st.sets(pairs, max_size=4)))


@settings(max_examples=150, deadline=None)
@given(lattices(), st.integers(0, 2**32 - 1))
def test_every_rule_sums_to_the_total(lattice: Lattice, seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = {mask: float(rng.uniform(-1, 1)) for mask in lattice.family}
    total = v[lattice.full] - v[0]
    chain = rules.finest_run_chain(lattice)
    for terms in (
        rules.headline(lattice),
        rules.fair_shares(lattice),
        rules.path_average(lattice),
        rules.chain_steps(lattice, chain),
    ):
        assert sum(value(c, v) for c in terms.values()) == pytest.approx(total, abs=ADDITIVITY)
    mains = [c for name, c in rules.headline(lattice).items() if name != rules.INTERACTION]
    named = list(rules.interactions(lattice).values())
    parts = sum(value(c, v) for c in [*mains, *named])
    assert parts == pytest.approx(total, abs=ADDITIVITY)


@settings(max_examples=80, deadline=None)
@given(lattices(), st.integers(0, 2**32 - 1))
def test_dividends_rebuild_every_corner(lattice: Lattice, seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = {mask: float(rng.uniform(-1, 1)) for mask in lattice.family}
    m = {mask: value(c, v) for mask, c in dividends(lattice.family).items()}
    for mask in lattice.family:
        inside = sum(d for sub, d in m.items() if sub & mask == sub)
        assert inside == pytest.approx(v[mask], abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_fair_share_on_a_full_lattice_is_shapley(k: int) -> None:
    lattice = lattice_of(k, set())
    rng = np.random.default_rng(k)
    v = {mask: float(rng.uniform(-1, 1)) for mask in lattice.family}
    fair, average = rules.fair_shares(lattice), rules.path_average(lattice)
    for j, name in enumerate(lattice.names):
        steps = []
        for order in permutations(range(k)):
            before = sum(1 << i for i in order[: order.index(j)])
            steps.append(v[before | 1 << j] - v[before])
        assert value(fair[name], v) == pytest.approx(np.mean(steps), abs=ADDITIVITY)
        assert value(average[name], v) == pytest.approx(np.mean(steps), abs=ADDITIVITY)


@settings(max_examples=60, deadline=None)
@given(lattices(), st.integers(0, 2**32 - 1))
def test_path_average_against_enumeration(lattice: Lattice, seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = {mask: float(rng.uniform(-1, 1)) for mask in lattice.family}
    k = len(lattice.players)
    paths = []
    for order in permutations(range(k)):
        masks = [sum(1 << i for i in order[:n]) for n in range(k + 1)]
        if all(mask in lattice.family for mask in masks):
            paths.append((order, masks))
    for j, name in enumerate(lattice.names):
        steps = [
            v[high] - v[low]
            for order, masks in paths
            for (low, high), player in zip(pairwise(masks), order, strict=True)
            if player == j
        ]
        found = value(rules.path_average(lattice)[name], v)
        assert found == pytest.approx(np.mean(steps), abs=ADDITIVITY)


def precedence() -> Lattice:
    """device, backend, precision; the backend needs the device."""
    return lattice_of(3, {(1, 0)})


def test_precedence_matches_the_published_formulas() -> None:
    lattice = precedence()
    r, p, q, pb, pq, t = 0b000, 0b001, 0b100, 0b011, 0b101, 0b111
    head = rules.headline(lattice)
    assert head["f0"] == {p: 1.0, r: -1.0}
    assert head["f1"] == {pb: 1.0, p: -1.0}
    assert head["f2"] == {q: 1.0, r: -1.0}
    assert head[rules.INTERACTION] == {t: 1.0, pb: -1.0, q: -1.0, r: 1.0}
    named = rules.interactions(lattice)
    assert named["f0 x f2"] == {pq: 1.0, p: -1.0, q: -1.0, r: 1.0}
    assert named["f1 x f2"] == {t: 1.0, pb: -1.0, pq: -1.0, p: 1.0}


def test_inert_engine_moves_the_path_average_but_not_the_fair_share() -> None:
    lattice = precedence()
    v = dict.fromkeys(lattice.family, 0.0) | {0b101: 0.3, 0b111: 0.3}
    fair = {name: value(c, v) for name, c in rules.fair_shares(lattice).items()}
    average = {name: value(c, v) for name, c in rules.path_average(lattice).items()}
    assert fair == pytest.approx({"f0": 0.15, "f1": 0.0, "f2": 0.15})
    assert average == pytest.approx({"f0": 0.1, "f1": 0.0, "f2": 0.2})


def test_named_path_and_its_errors() -> None:
    lattice = precedence()
    chain = rules.chain_of_path(lattice, "f2>f0>f1")
    assert list(rules.chain_steps(lattice, chain)) == ["f2", "f0", "f1"]
    assert list(rules.chain_steps(lattice, rules.chain_of_path(lattice, "f2>f0+f1"))) == [
        "f2",
        "f0+f1",
    ]
    for wrong in ("f1>f0>f2", "f0>f1", "f0>f1>nothing", "f0>f0>f1>f2"):
        with pytest.raises(LatticeError):
            rules.chain_of_path(lattice, wrong)


def test_tables_of_a_test_are_aligned() -> None:
    table = table_of({"a/b/c": np.zeros(3), "a/b/d": np.ones(3)})
    assert len(table.cells) == 2


@settings(max_examples=100, deadline=None)
@given(lattices())
def test_an_interaction_is_a_term_only_where_one_can_exist(lattice: Lattice) -> None:
    several_tops = any(len(lattice.tops(mask)) > 1 for mask in dividends(lattice.family))
    assert (rules.INTERACTION in rules.headline(lattice)) == several_tops


def test_a_single_order_makes_every_step_a_main_effect() -> None:
    lattice = lattice_of(3, {(1, 0), (2, 1)})
    headline = rules.headline(lattice)
    assert list(headline) == ["f0", "f1", "f2"]
    assert headline == rules.chain_steps(lattice, rules.finest_run_chain(lattice))
