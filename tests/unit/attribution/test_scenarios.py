"""The published scenarios, to their tolerance."""

from __future__ import annotations

from typing import Any

import pytest
from attribution_tables import SHARED, load_scenario

from sameweights.attribution.api import attribute
from sameweights.attribution.results import Attribution, Estimate

TOLERANCE = 1e-9

pytestmark = pytest.mark.skipif(
    not (SHARED / "scenarios").is_dir(),
    reason="the published scenarios are not beside the checkout",
)


def run(name: str) -> tuple[Attribution, dict[str, Any]]:
    table, expected = load_scenario(name)
    found = attribute(
        table, expected["reference"], expected["target"], rules=[expected["constraint"]]
    )
    return found, expected


def by_name(terms: tuple[Estimate, ...]) -> dict[str, Estimate]:
    return {term.name: term for term in terms}


def check_terms(terms: tuple[Estimate, ...], expected: dict[str, Any]) -> None:
    found = by_name(terms)
    assert set(found) == set(expected)
    for name, value in expected.items():
        if not isinstance(value, dict):
            value = {"estimate": value, "verdict": "identified"}
        term = found[name]
        assert term.verdict == value["verdict"], name
        if "estimate" in value:
            assert term.estimate == pytest.approx(value["estimate"], abs=TOLERANCE), name
        else:
            assert term.estimate is None
            assert term.bounds == pytest.approx((value["lo"], value["hi"]), abs=TOLERANCE), name


@pytest.mark.parametrize(
    "name", ["s1_pure_platform", "s2_pure_quantization", "s6_same_score_churn"]
)
def test_full_lattice_scenario(name: str) -> None:
    found, expected = run(name)
    assert found.n_items == expected["items"]
    scores = {c.cell: c.score.estimate for c in found.corners if c.score is not None}
    assert scores == pytest.approx(expected["cell_scores"], abs=TOLERANCE)
    for outcome in ("score", "churn", "right_to_wrong", "wrong_to_right"):
        split, wanted = found.outcomes[outcome], expected[outcome]
        assert split.total.estimate == pytest.approx(wanted["total"], abs=TOLERANCE)
        for rule in ("headline", "fair_share", "path_average"):
            if rule in wanted:
                check_terms(getattr(split, rule), wanted[rule])
        if "share_reportable" in wanted:
            assert {s.reportable for s in split.shares} == {wanted["share_reportable"]}
    assert found.classes is not None
    assert {c.name: c.items for c in found.classes.counts} == expected["flip_classes"]
    assert found.flips is not None
    assert found.flips.right_to_wrong == expected["mcnemar"]["b"]
    assert found.flips.wrong_to_right == expected["mcnemar"]["c"]
    assert found.flips.exact == pytest.approx(expected["mcnemar"]["exact"], abs=TOLERANCE)
    assert found.flips.mid_p == pytest.approx(expected["mcnemar"]["mid_p"], abs=TOLERANCE)


def test_chain_only_scenario_is_refused_where_it_is_not_identified() -> None:
    found, expected = run("s8_chain_only")
    score, wanted = found.outcomes["score"], expected["score"]
    assert score.total.estimate == pytest.approx(wanted["total"], abs=TOLERANCE)
    assert score.path.name == wanted["default_path"]
    check_terms(score.path.terms, wanted["path"])
    check_terms(score.headline, wanted["headline"])
    assert [b.name for b in score.blocks] == [name for name, _ in wanted["separable_blocks"]]
    assert [b.estimate for b in score.blocks] == pytest.approx(
        [value for _, value in wanted["separable_blocks"]], abs=TOLERANCE
    )
    assert not score.identified
    assert score.next_cells[0].cell == "mac/torch/int8"
    states = {c.cell: c.state for c in found.corners}
    assert states["mac/torch/int8"] == "possible"
    assert states["mac/trtllm/fp16"] == "impossible"
