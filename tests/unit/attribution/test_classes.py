"""Item classes, sufficiency and necessity."""

from __future__ import annotations

import numpy as np
import pytest
from attribution_tables import table_of

from sameweights.attribution.api import attribute
from sameweights.attribution.results import Attribution, Classes

CELLS = ["mac/torch/fp16", "jetson/torch/fp16", "jetson/trtllm/fp16", "mac/torch/int8",
         "jetson/torch/int8", "jetson/trtllm/int8"]  # fmt: skip

# Per class: the answers in r, p, pb, q, pq, t.
PATTERNS = {
    "stable": "AAAAAA",
    "transient": "ABAABA",
    "device": "ABBABB",
    "backend": "AABAAB",
    "precision": "AAABBB",
    "device|precision": "ABBBBB",
    "device x precision": "AAAABB",
    "backend x precision": "AAAAAB",
    "backend|precision": "AABBBB",
}


def classes_of(patterns: list[str], cells: list[str]) -> Classes:
    answers = {
        cell: np.array([ord(p[CELLS.index(cell)]) for p in patterns], dtype=np.int32)
        for cell in cells
    }
    found: Attribution = attribute(
        table_of({c: (a == 65) for c, a in answers.items()}, answers),
        CELLS[0],
        CELLS[-1],
        rules=["trtllm needs jetson"],
    )
    assert found.classes is not None
    return found.classes


def test_every_class_is_named_by_its_minimal_flipping_sets() -> None:
    found = classes_of(list(PATTERNS.values()), CELLS)
    assert list(found.labels) == list(PATTERNS)


def test_missing_cells_give_bracketed_classes() -> None:
    patterns = ["AAAAAB", "ABBABB", "AAAAAA", "AAABBB"]
    found = classes_of(patterns, [CELLS[0], CELLS[1], CELLS[5]])
    assert list(found.labels) == ["[backend+precision]", "device", "stable", "[backend+precision]"]
    chain = classes_of(patterns, [CELLS[0], CELLS[1], CELLS[2], CELLS[5]])
    assert list(chain.labels) == ["[precision]", "device", "stable", "[precision]"]


def test_sufficiency_and_necessity() -> None:
    found = classes_of(["ABBABB", "ABBBBB", "AAABBB", "AAABBB", "AAAAAA"], CELLS)
    enough = {e.name: e.estimate for e in found.sufficiency}
    needed = {e.name: e.estimate for e in found.necessity}
    assert enough == pytest.approx({"device": 0.5, "backend": 0.0, "precision": 0.75})
    assert needed == pytest.approx({"device": 0.25, "backend": 0.0, "precision": 0.5})


def test_unresolved_sufficiency_is_no_number() -> None:
    found = classes_of(["AAAAAB", "ABBABB"], [CELLS[0], CELLS[1], CELLS[5]])
    by_name = {e.name: e for e in found.sufficiency}
    assert by_name["precision"].estimate is None
    assert by_name["device"].estimate == pytest.approx(0.5)
