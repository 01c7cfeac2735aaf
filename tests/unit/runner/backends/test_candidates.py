"""Positions of candidates: what is missing from them is an error, never a number."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.conftest import make_spec

from runner.backends import load_adapter
from runner.backends._candidates import evidence_of
from runner.backends.sglang import as_positions
from runner.options import OptionError

POSITION = {7: -4.0, 1: -0.5, 2: -1.5, 3: -2.5}


def test_evidence_is_of_the_token_and_the_best() -> None:
    assert evidence_of([7], [POSITION], 10) == {
        "token_logprobs": [-4.0],
        "margins": [1.0],
        "top_ids": [[1, 2, 3]],
        "top_logprobs": [[-0.5, -1.5, -2.5]],
    }


@pytest.mark.parametrize(
    ("token", "position", "says"),
    [
        (5, POSITION, "truncated top-k"),
        (7, {7: -4.0, 1: -0.5}, "has 2 candidates; 3 were asked for"),
        (7, POSITION | {10: -3.0}, "candidate 10 is outside the vocabulary of 10"),
        (7, {}, "truncated top-k"),
    ],
)
def test_what_is_missing_is_an_error(token: int, position: dict[int, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        evidence_of([token], [position], 10)


def test_a_first_token_without_a_value_is_an_empty_position() -> None:
    own = [(None, 4, None), (-2.0, 5, None)]
    assert as_positions(own, [None, [(-0.5, 6, None)]]) == [{}, {5: -2.0, 6: -0.5}]


@pytest.mark.parametrize(
    ("adapter", "options"),
    [
        ("vllm", {"batch_invariant": True}),
        ("vllm", {"batch_invariant": True, "attention": "FLEX_ATTENTION"}),
        ("vllm", {"batch_invariant": True, "attention": "FLASHINFER"}),
        ("sglang", {"deterministic": True, "attention": "torch_native"}),
    ],
)
def test_a_switch_that_the_attention_backend_cannot_obey_is_refused(
    adapter: str, options: dict[str, Any], tmp_path: Any
) -> None:
    backend: Any = load_adapter(adapter)
    with pytest.raises(OptionError, match="allowed: "):
        backend(tmp_path, make_spec(adapter, options))


def test_int8_of_load_time_is_no_recipe_of_vllm(tmp_path: Any) -> None:
    """It would leave the layers of a dense model as they are, under the name of int8."""
    backend: Any = load_adapter("vllm")
    recipe = {"weights": "int8", "activations": "bf16", "compute": "bf16", "library": "vllm"}
    with pytest.raises(OptionError, match="recipe"):
        backend(tmp_path, make_spec("vllm", {}, recipe))
