"""The published case: 250 items, three cells run, the fp16 engine cell missing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from attribution_tables import table_of

from sameweights.attribution.api import attribute
from sameweights.attribution.capability import parse_rules
from sameweights.attribution.published import CellTotals, flip_range, read_published

R, P, T = "mac/torch/fp16", "jetson/torch/fp16", "jetson/trtllm/int8"
FACTORS = ("device", "backend", "precision")
RULE = "trtllm needs jetson"
LEVELS = {"device": frozenset({"mac", "jetson"}), "backend": frozenset({"torch", "trtllm"})}


def test_totals_alone_say_what_is_known_and_refuse_the_rest() -> None:
    totals = {P: CellTotals(18, score_at_most=0.005), T: CellTotals(133, net_items=-28)}
    found = read_published(FACTORS, 250, R, T, totals, parse_rules([RULE], LEVELS))
    platform, target = found.cells
    assert platform.churn == pytest.approx(0.072)
    assert platform.churn_interval == pytest.approx((0.046, 0.111), abs=5e-4)
    assert platform.score_interval == pytest.approx((-0.034, 0.034), abs=1e-3)
    assert platform.items_for_half_point == 22603
    assert target.churn_interval == pytest.approx((0.470, 0.593), abs=5e-4)
    assert target.flips is not None
    assert (target.flips.fewest, target.flips.most) == (28, 132)
    assert target.flips.narrow == pytest.approx((-0.151, -0.071), abs=5e-4)
    assert target.flips.wide == pytest.approx((-0.200, -0.022), abs=5e-4)
    assert target.flips.excludes_zero_either_way
    assert found.refused == ("backend", "precision", "interaction")
    assert [block.name for block in found.blocks] == ["device", "backend+precision"]
    assert found.next_cells[0].cell == "jetson/trtllm/fp16"
    (other,) = found.unstated
    assert other.churn == pytest.approx((0.532 - 0.072, 0.532 + 0.072))
    assert other.score == 0.005
    for said in ("cannot be separated", "run jetson/trtllm/fp16", "if the reference was"):
        assert said in found.verdict
    json.dumps(found.to_dict(), allow_nan=False)


def test_items_of_the_same_case_are_refused_in_the_same_way() -> None:
    index = np.arange(250)
    reference = (index < 150).astype(int)
    # 18 answers differ on the platform: 9 lost, 9 won. 133 under int8: 80 lost, 52 won, one other.
    platform = np.where((index < 9) | ((index >= 150) & (index < 159)), 1 - reference, reference)
    lost, won = (index >= 20) & (index < 100), (index >= 190) & (index < 242)
    target = np.where(lost | won, 1 - reference, reference)
    answers = {R: reference, P: platform, T: np.where(index == 249, 7, target)}
    found = attribute(table_of({R: reference, P: platform, T: target}, answers), R, T, rules=[RULE])
    score, churn = found.outcomes["score"], found.outcomes["churn"]
    assert score.total.estimate == pytest.approx(-0.112)
    assert score.total.interval == pytest.approx((-0.200, -0.022), abs=1.5e-3)
    assert churn.total.estimate == pytest.approx(0.532)
    assert not score.identified
    assert [b.name for b in score.blocks] == ["device", "backend+precision"]
    assert score.next_cells[0].cell == "jetson/trtllm/fp16"
    verdicts = {t.name: t.verdict for t in score.headline}
    assert verdicts["device"] == "identified"
    assert verdicts["backend"] == verdicts["precision"] == "not identified"
    assert "refused: backend, precision, interaction" in found.verdict
    assert found.classes is not None
    assert {c.name for c in found.classes.counts} >= {"[backend+precision]", "transient"}


@pytest.mark.parametrize(("net", "changed"), [(-28, 133), (0, 18), (5, 5), (3, 18)])
def test_flip_range_keeps_parity(net: int, changed: int) -> None:
    found = flip_range(net, changed, 250)
    assert found.fewest == abs(net)
    assert found.fewest <= found.most <= changed
    assert (found.most - net) % 2 == 0
    assert found.most + 2 > changed
