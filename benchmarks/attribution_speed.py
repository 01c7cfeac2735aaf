"""Speed of the attribution on a large matrix, beside a scipy/pandas baseline on a slice of it.

Run: `python benchmarks/attribution_speed.py`. 10 models x 96 cells x 14,000 items (13.4 M
outcomes): every pair of cells of a model (score change with interval, flips, McNemar, churn with
interval) and every target against one reference (main effects, interaction, fair shares, with
intervals, for score and churn). The baseline does the same for a named slice of one model and is
scaled by the number of pairs and of targets.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

# The products here are small: a second BLAS thread mostly spins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy import stats

from sameweights.attribution import rules
from sameweights.attribution.capability import Rule
from sameweights.attribution.inference import Floats, Sampling, plan_sampling
from sameweights.attribution.lattice import Levels, build_lattice
from sameweights.attribution.matrix import attribute_all, compare_all
from sameweights.attribution.table import Codes

FACTORS = ("device", "backend", "precision")
DEVICES, BACKENDS, PRECISIONS = 6, 4, 4
TASKS = 12
SLICE_CELLS = 8
REFERENCE = ("d0", "b0", "p0")
NEEDS = Rule("backend", frozenset({"b3"}), "device", frozenset(f"d{k}" for k in range(2, 6)))

TARGET_CPU_S = 10.0
TARGET_RSS_MB = 1000.0


@dataclass(frozen=True)
class Model:
    """Outcomes of one model: right [C, n] 0/1 and answer codes [C, n]."""

    cells: list[Levels]
    right: Floats
    codes: Codes
    sampling: Sampling
    strata: np.ndarray


def make_model(seed: int, n: int) -> Model:
    """96 cells (of which those that a rule forbids are kept as run on other hardware levels)."""
    rng = np.random.default_rng(seed)
    cells: list[Levels] = [
        (f"d{d}", f"b{b}", f"p{p}")
        for d, b, p in product(range(DEVICES), range(BACKENDS), range(PRECISIONS))
    ]
    strata = np.sort(rng.integers(0, TASKS, n))
    margin = rng.standard_normal(n) + 0.3
    right = np.empty((len(cells), n))
    for k, (device, backend, precision) in enumerate(cells):
        level = 0.02 * int(device[1]) + 0.02 * int(backend[1]) + 0.15 * int(precision[1])
        right[k] = margin + level * rng.standard_normal(n) > 0
    codes = np.where(right > 0, 0, rng.integers(1, 4, right.shape)).astype(np.int32)
    return Model(cells, right, codes, plan_sampling(strata, None), strata)


def analyse(model: Model) -> tuple[int, int]:
    """All pairs and all attributions of one model; returns how many of each."""
    table = compare_all(model.right, model.codes, model.sampling)
    column = model.cells.index(REFERENCE)
    changed = (model.codes != model.codes[column]).astype(np.float64)
    splits = [
        attribute_all(values, model.cells, FACTORS, REFERENCE, model.sampling)
        for values in (model.right, changed)
    ]
    return table.delta.size - len(model.cells), sum(map(len, splits))


def cpu_seconds(work: Callable[[], object]) -> float:
    """User plus system seconds of this process over all its threads."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def long_frame(model: Model, cells: int) -> pd.DataFrame:
    """The slice as an analyst has it: one row per cell and item."""
    n = len(model.strata)
    return pd.DataFrame(
        {
            "cell": np.repeat(["/".join(cell) for cell in model.cells[:cells]], n),
            "task": np.tile(model.strata, cells),
            "item": np.tile(np.arange(n), cells),
            "right": model.right[:cells].reshape(-1),
            "answer": model.codes[:cells].reshape(-1),
        }
    )


def baseline_pair(frame: pd.DataFrame, before: str, after: str) -> None:
    """One pair with pandas and scipy: join, stratified standard error, McNemar, churn."""
    pair = frame[frame.cell == before].merge(frame[frame.cell == after], on=["task", "item"])
    for x in (pair.right_y - pair.right_x, (pair.answer_x != pair.answer_y).astype(float)):
        groups = x.groupby(pair.task).agg(["var", "count"])
        se = np.sqrt((groups["var"] * groups["count"]).sum()) / len(x)
        stats.t.interval(0.95, len(x) - len(groups), loc=x.mean(), scale=se)
    lost = int(((pair.right_x == 1) & (pair.right_y == 0)).sum())
    won = int(((pair.right_x == 0) & (pair.right_y == 1)).sum())
    if lost + won:
        stats.binomtest(lost, lost + won)


def baseline_target(frame: pd.DataFrame, target: Levels, cells: list[Levels], column: str) -> None:
    """One attribution with pandas and scipy: pivot, contrasts, stratified standard errors."""
    lattice = build_lattice(FACTORS, REFERENCE, target, cells)
    names = [lattice.cell(mask) for mask in lattice.family]
    wide = frame[frame.cell.isin(names)].pivot(
        index=["task", "item"], columns="cell", values=column
    )
    if column == "answer":
        wide = wide.ne(wide["/".join(REFERENCE)], axis=0).astype(float)
    terms = {**rules.headline(lattice), **rules.fair_shares(lattice), "total": rules.total(lattice)}
    for contrast in terms.values():
        x = sum(weight * wide[lattice.cell(mask)] for mask, weight in contrast.items())
        if isinstance(x, int):
            continue
        groups = x.groupby(level="task").agg(["var", "count"])
        se = np.sqrt((groups["var"] * groups["count"]).sum()) / len(x)
        stats.t.interval(0.95, len(x) - len(groups), loc=x.mean(), scale=se)


def baseline_cpu_s(model: Model, pairs: int, targets: int) -> float:
    """CPU seconds of the baseline for that many pairs and targets, scaled from the slice."""
    frame = long_frame(model, SLICE_CELLS)
    cells = model.cells[:SLICE_CELLS]
    names = ["/".join(cell) for cell in cells]
    couples = [(a, b) for a in names for b in names if a < b]

    def all_pairs() -> None:
        for before, after in couples:
            baseline_pair(frame, before, after)

    pair_s = cpu_seconds(all_pairs) / len(couples)
    others = [cell for cell in cells if cell != REFERENCE]

    def all_targets() -> None:
        for target, column in product(others, ("right", "answer")):
            baseline_target(frame, target, cells, column)

    target_s = cpu_seconds(all_targets) / (2 * len(others))
    print(
        f"baseline slice: model 0, cells {names[0]} .. {names[-1]} ({len(couples)} pairs, "
        f"{2 * len(others)} splits): {1e3 * pair_s:.1f} ms a pair, {1e3 * target_s:.1f} ms a split"
    )
    return pair_s * pairs + target_s * targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--items", type=int, default=14_000)
    options = parser.parse_args()

    spent, pairs, splits = 0.0, 0, 0
    for seed in range(options.models):
        model = make_model(seed, options.items)
        counts: list[tuple[int, int]] = []
        spent += cpu_seconds(lambda: counts.append(analyse(model)))  # noqa: B023
        pairs, splits = pairs + counts[0][0] // 2, splits + counts[0][1]
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    outcomes = options.models * DEVICES * BACKENDS * PRECISIONS * options.items
    print(
        f"ours: {options.models} models, {outcomes / 1e6:.1f} M outcomes, {pairs} pairs, "
        f"{splits} splits: {spent:.2f} s of CPU (target {TARGET_CPU_S:.0f}), peak {rss_mb:.0f} MB "
        f"(target {TARGET_RSS_MB:.0f}, data included)"
    )
    base = baseline_cpu_s(make_model(0, options.items), pairs, splits)
    print(f"baseline, scaled: {base:.0f} s of CPU; ratio {base / spent:.0f}")
    previous = 0.0
    for n in (options.items, 2 * options.items, 4 * options.items):
        larger = make_model(1, n)
        now = min(cpu_seconds(lambda: analyse(larger)) for _ in range(3))  # noqa: B023
        growth = f", {now / previous:.2f} times the previous" if previous else ""
        print(f"linear in items: n = {n}: {now:.2f} s{growth}")
        previous = now
    raise SystemExit(spent > TARGET_CPU_S or rss_mb > TARGET_RSS_MB)


if __name__ == "__main__":
    main()
