"""The public entry: options, additivity of everything it prints, clean JSON."""

from __future__ import annotations

import json
from itertools import pairwise, product

import numpy as np
import pytest
from attribution_tables import table_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sameweights.attribution.api import attribute
from sameweights.attribution.lattice import LatticeError
from sameweights.attribution.outcomes import OutcomeError
from sameweights.attribution.results import Estimate
from sameweights.attribution.table import ItemTable, Run, TableError, table_from_long

CELLS = ["/".join(levels) for levels in product(("mac", "jetson"), ("torch", "mlx"), ("a", "b"))]
R, T = CELLS[0], CELLS[-1]


def random_table(seed: int, n: int = 60, replicates: int = 1) -> ItemTable:
    rng = np.random.default_rng(seed)
    labels = [f"{cell}#{k}" for cell in CELLS for k in range(replicates)]
    answers = {label: rng.integers(0, 3, n) for label in labels}
    return table_of({label: a == 0 for label, a in answers.items()}, answers)


def sum_of(terms: tuple[Estimate, ...]) -> float:
    return sum(term.estimate or 0.0 for term in terms)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.booleans())
def test_everything_adds_up(seed: int, replicates: int, changed_only: bool) -> None:
    changed_only = changed_only and replicates == 1
    found = attribute(random_table(seed, 20, replicates), R, T, changed_only=changed_only)
    for split in found.outcomes.values():
        total = split.total.estimate
        for terms in (split.headline, split.fair_share, split.path_average, split.path.terms):
            assert sum_of(terms) == pytest.approx(total, abs=1e-12)
        mains = split.headline[:-1]
        assert sum_of((*mains, *split.interactions)) == pytest.approx(total, abs=1e-12)
    lost, won, score = (
        found.outcomes[name].fair_share for name in ("right_to_wrong", "wrong_to_right", "score")
    )
    for g, h, s in zip(lost, won, score, strict=True):
        assert (h.estimate or 0) - (g.estimate or 0) == pytest.approx(s.estimate, abs=1e-12)


def test_changed_only_drops_transients_and_keeps_the_total() -> None:
    table = random_table(1)
    every, changed = (attribute(table, R, T, changed_only=flag) for flag in (False, True))
    for name in ("score", "churn"):
        a, b = every.outcomes[name], changed.outcomes[name]
        assert b.total.estimate == pytest.approx(a.total.estimate)
    a, b = every.outcomes["churn"].headline[0], changed.outcomes["churn"].headline[0]
    assert (b.estimate or 0) < (a.estimate or 0)
    with pytest.raises(OutcomeError, match="replicates disagree"):
        attribute(random_table(1, replicates=2), R, T, outcomes=["score"], changed_only=True)


def test_named_path_telescopes_through_other_cells() -> None:
    found = attribute(random_table(2), R, T, path="precision>backend>device")
    path = found.outcomes["score"].path
    assert path.name == "precision>backend>device"
    assert path.cells == (R, "mac/torch/b", "mac/mlx/b", T)
    with pytest.raises(LatticeError, match="path"):
        attribute(random_table(2), R, T, path="precision>speed")


def test_steps_stand_beside_the_net_churn() -> None:
    found = attribute(random_table(3), R, T)
    assert len(found.steps) == 12
    along = [s for s in found.steps if (s.from_cell, s.to_cell) in {(R, "jetson/torch/a")}]
    assert along[0].player == "device"
    net = found.outcomes["churn"].total.estimate or 0
    cells = found.outcomes["churn"].path.cells
    steps = {(s.from_cell, s.to_cell): s.churn["extracted"].estimate or 0 for s in found.steps}
    assert net <= sum(steps[pair] for pair in pairwise(cells))
    p = [s.flips.mid_p for s in found.steps if s.flips]
    assert all(s.flips.holm >= s.flips.bh >= s.flips.mid_p for s in found.steps if s.flips)  # type: ignore[operator]
    assert len(p) == 12


def test_sampled_decoding_compares_different_seeds_only() -> None:
    answers = {(cell, seed): np.full(10, seed) for cell in CELLS[:2] for seed in (1, 2)}
    codes = np.array(list(answers.values()), dtype=np.int32)
    runs = tuple(Run(tuple(cell.split("/")), 0, seed) for cell, seed in answers)
    keys = tuple(("t", k, "none") for k in range(10))
    table = ItemTable(
        ("device", "backend", "precision"),
        runs,
        keys,
        np.ones(codes.shape),
        {"extracted": codes},
        np.zeros(10, dtype=np.int64),
        seeds="sampling",
    )
    found = attribute(table, CELLS[0], CELLS[1])
    assert found.outcomes["churn"].total.estimate == 1.0
    assert found.outcomes["churn"].noise.value == 1.0
    assert found.outcomes["churn_excess"].total.estimate == 0.0


def test_json_is_clean_and_every_estimate_is_dressed() -> None:
    table = random_table(4).take_runs([0, 1, 2, 4, 7])
    record = attribute(table, R, T).to_dict()
    text = json.dumps(record, allow_nan=False)
    assert "labels" not in record["classes"]
    assert len(attribute(table, R, T).to_dict(items=True)["classes"]["labels"]) == 60
    assert json.loads(text) == record
    for split in record["outcomes"].values():
        for term in [split["total"], *split["headline"], *split["fair_share"]]:
            assert {"n", "interval", "verdict", "noise_floor", "bounds"} <= set(term)
            assert term["n"] == 60
            assert term["interval"] is not None


def test_any_numeric_outcome_and_unbounded_ones() -> None:
    rng = np.random.default_rng(5)
    table = random_table(5)
    kld = rng.exponential(0.01, table.values.shape)
    kld[0] = 0.0
    table = ItemTable(
        table.factors, table.runs, table.keys, table.values, table.codes, table.strata,
        extras={"kld": kld},
    )  # fmt: skip
    split = attribute(table, R, T).outcomes["kld"]
    assert split.unit == "nats"
    assert split.total.estimate == pytest.approx(kld[-1].mean())
    missing = attribute(table.take_runs([0, 1, 7]), R, T).outcomes["kld"]
    record = json.loads(json.dumps(attribute(table.take_runs([0, 1, 7]), R, T).to_dict()))
    assert missing.headline[0].bounds[1] == np.inf
    assert record["outcomes"]["kld"]["headline"][0]["bounds"][1] is None


def test_wrong_outcome_names_the_known_ones() -> None:
    with pytest.raises(OutcomeError, match="allowed here"):
        attribute(random_table(6), R, T, outcomes=["speed"])
    with pytest.raises(OutcomeError, match="answer levels here"):
        attribute(random_table(6), R, T, outcomes=["churn_tokens"])


def test_tables_that_do_not_fit_are_refused() -> None:
    rows = [("a/b/c", "q1", "A", 1.0), ("a/b/d", "q2", "A", 1.0)]
    with pytest.raises(TableError, match="2 items differ"):
        table_from_long(rows)
    with pytest.raises(TableError, match="appears twice"):
        table_from_long([rows[0], rows[0]])
    with pytest.raises(TableError, match="no rows"):
        table_from_long([])
    none = table_from_long([("a/b/c", "q1", "A", 1.0), ("a/b/d", "q1", None, None)])
    with pytest.raises(LatticeError, match="was not run"):
        attribute(none, "a/b/c", "a/b/d")
