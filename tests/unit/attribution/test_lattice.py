"""Lattices: feasibility, merged players, bridges, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from attribution_tables import table_of

from sameweights.attribution.api import attribute
from sameweights.attribution.capability import (
    ImpossibleCells,
    RuleError,
    parse_rules,
    rules_from_dicts,
)
from sameweights.attribution.lattice import LatticeError, build_lattice
from sameweights.attribution.table import TableError

FACTORS = ("device", "backend", "precision")
LEVELS = {
    "device": frozenset({"mac", "jetson"}),
    "backend": frozenset({"mlx", "torch", "trtllm"}),
    "precision": frozenset({"fp16", "int8"}),
}


def test_inseparable_factors_are_one_player() -> None:
    rules = parse_rules(["trtllm needs jetson; mlx needs mac"], LEVELS)
    ends = ("mac", "mlx", "fp16"), ("jetson", "trtllm", "int8")
    lattice = build_lattice(FACTORS, *ends, ends, rules)
    assert lattice.names == ("device+backend", "precision")
    assert len(lattice.family) == 4
    assert "can never be switched apart" in lattice.notes[0]


def test_bridge_over_cells_with_another_level() -> None:
    rng = np.random.default_rng(1)
    cells = ["mac/mlx/fp16", "mac/torch/fp16", "jetson/torch/fp16", "jetson/trtllm/fp16"]
    table = table_of({cell: rng.integers(0, 2, 50) for cell in cells})
    rules = ["trtllm needs jetson", "mlx needs mac"]
    found = attribute(table, cells[0], cells[-1], rules=rules)
    assert found.players == ("device+backend",)
    assert found.bridge is not None
    assert found.bridge.cells == tuple(cells)
    total = found.outcomes["score"].total.estimate
    assert sum(t.estimate or 0 for t in found.bridge.terms) == pytest.approx(total, abs=1e-12)
    shorter = table.take_runs([0, 3])
    assert attribute(shorter, cells[0], cells[-1], rules=rules).bridge is None


def test_corner_that_no_single_step_reaches_merges_its_joint_step() -> None:
    # {a, b} and {b, c} are possible, no player alone is: none is always with another.
    cells = {"000", "110", "011", "111"}
    names = ("a", "b", "c")
    forbidden = frozenset("/".join(f"{x:03b}") for x in range(8) if f"{x:03b}" not in cells)
    run = [tuple(c) for c in cells]
    lattice = build_lattice(names, tuple("000"), tuple("111"), run, [ImpossibleCells(forbidden)])
    assert all(lattice.tops(mask) for mask in lattice.family if mask)


def test_run_cell_that_a_rule_forbids_is_an_error() -> None:
    rules = parse_rules(["trtllm needs jetson"], LEVELS)
    run = [("mac", "torch", "fp16"), ("mac", "trtllm", "fp16")]
    with pytest.raises(LatticeError, match="mac/trtllm/fp16' was run, yet"):
        build_lattice(FACTORS, run[0], run[1], run, rules)


def test_rules_as_data_and_their_errors() -> None:
    (rule,) = rules_from_dicts([{"when": {"backend": ["trtllm"]}, "needs": {"device": ["jetson"]}}])
    assert (rule,) == parse_rules(["trtllm needs jetson"], LEVELS)
    (excludes,) = parse_rules(["precision=int8 excludes mac or orin"], LEVELS)
    assert not excludes.allows({"device": "mac", "precision": "int8"})
    assert excludes.allows({"device": "jetson", "precision": "int8"})
    two = parse_rules(["trtllm needs jetson"], LEVELS) + parse_rules(["mlx needs mac"], LEVELS)
    for text in ("trtllm needs jetson, mlx needs mac", "trtllm only on jetson and mlx needs mac"):
        assert parse_rules([text], LEVELS) == two
    for wrong in ("trtllm jetson", "nothing needs jetson", "speed=1 needs mac", "mac needs jetson"):
        with pytest.raises(RuleError):
            parse_rules([wrong], LEVELS)
    with pytest.raises(RuleError):
        rules_from_dicts([{"when": {}, "needs": {}}])


def test_unknown_cell_names_the_known_ones() -> None:
    table = table_of({"mac/torch/fp16": np.zeros(3), "mac/torch/int8": np.ones(3)})
    with pytest.raises(TableError, match="mac/torch/fp16"):
        attribute(table, "pc/torch/fp16", "mac/torch/int8")


def test_four_factors_and_inactive_ones() -> None:
    rng = np.random.default_rng(2)
    cells = [
        f"{d}/torch/{p}/{kv}"
        for d in ("mac", "pc")
        for p in ("fp16", "int8")
        for kv in ("k16", "k8")
    ]
    names = ("device", "backend", "precision", "kv")
    table = table_of({c: rng.integers(0, 2, 40) for c in cells}, factors=names)
    found = attribute(table, cells[0], cells[-1])
    assert found.factors == ("device", "precision", "kv")
    total = found.outcomes["score"].total.estimate
    for terms in (found.outcomes["score"].headline, found.outcomes["score"].fair_share):
        assert sum(t.estimate or 0 for t in terms) == pytest.approx(total, abs=1e-12)
    assert len(found.outcomes["score"].interactions) == 4


def test_nine_free_factors_are_still_quick_enough_to_split() -> None:
    names = tuple(f"f{k}" for k in range(9))
    rng = np.random.default_rng(3)
    cells = ["/".join("0" * 9), "/".join("1" * 9), "/".join("1" + "0" * 8)]
    table = table_of({cell: rng.integers(0, 2, 30) for cell in cells}, factors=names)
    found = attribute(table, cells[0], cells[1], outcomes=["score"])
    assert [b.name for b in found.outcomes["score"].blocks] == ["f0", "+".join(names[1:])]
