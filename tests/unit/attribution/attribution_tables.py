"""Small item tables for the tests."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sameweights.attribution.lattice import Levels
from sameweights.attribution.table import ItemTable, Run, table_from_long

SHARED = Path(__file__).resolve().parents[3].parent / "shared"


def load_scenario(name: str) -> tuple[ItemTable, dict[str, Any]]:
    """A published scenario: its table and its expected values."""
    folder = SHARED / "scenarios"
    expected = json.loads((folder / "expected.json").read_text())["scenarios"][name]
    with (folder / f"{name}.csv").open(newline="") as handle:
        rows = [
            (row["cell"], row["item"], row["answer"], float(row["correct"]))
            for row in csv.DictReader(handle)
        ]
    return table_from_long(rows), expected


def table_of(
    cells: Mapping[str, np.ndarray],
    answers: Mapping[str, np.ndarray] | None = None,
    factors: Sequence[str] = ("device", "backend", "precision"),
    **more: Any,
) -> ItemTable:
    """Table from {"device/backend/precision#replicate": values [n]}; answers default to values."""
    answers = cells if answers is None else answers
    runs = []
    for label in cells:
        name, _, replicate = label.partition("#")
        levels: Levels = tuple(name.split("/"))
        runs.append(Run(levels, int(replicate or 0)))
    values = np.array([np.asarray(v, dtype=float) for v in cells.values()])
    n = values.shape[1]
    more.setdefault("strata", np.zeros(n, dtype=np.int64))
    return ItemTable(
        factors=tuple(factors),
        runs=tuple(runs),
        keys=tuple(("t", k, "none") for k in range(n)),
        values=values,
        codes={"extracted": np.array([np.asarray(answers[c], dtype=np.int32) for c in cells])},
        **more,
    )
