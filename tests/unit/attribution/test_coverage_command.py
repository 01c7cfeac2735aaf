"""The coverage simulation: its truths are true, and a small run of it covers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "attribution_coverage.py"


@pytest.fixture(scope="module")
def command() -> ModuleType:
    spec = importlib.util.spec_from_file_location("attribution_coverage", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("layout", [0, 3])
def test_exact_truths_are_the_means_of_many_items(command: ModuleType, layout: int) -> None:
    world, drawn = command.WORLDS[2], command.LAYOUTS[layout]
    grid, plan = command.lattice(), command.Draw.plan(400_000, drawn)
    truth = command.Truth(grid, world, drawn, np.bincount(plan.strata) / len(plan.strata))
    right = plan.run(np.random.default_rng(1), world, drawn, grid)
    changed = right != right[:, :1]
    for k, mask in enumerate(grid.family):
        assert right[:, k].mean() == pytest.approx(truth.score[mask], abs=4e-3)
        assert changed[:, k].mean() == pytest.approx(truth.churn[mask], abs=4e-3)


def test_small_run_covers(command: ModuleType) -> None:
    names, tally = command.simulate(command.WORLDS[2], command.LAYOUTS[3], 250, runs=400, seed=1)
    enough = tally.enough / tally.runs >= command.ALWAYS
    cover = tally.covered / tally.runs
    assert enough.sum() >= 6
    assert (cover[enough] >= 0.915).all()
    assert (cover[enough] <= 0.985).all()
    assert tally.bounds_hold == tally.runs
    assert len(names) == len(cover)
