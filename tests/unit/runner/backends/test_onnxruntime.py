"""What the ONNX Runtime backend refuses before it opens anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import FP32, make_spec

from runner.backends.onnxruntime import Backend
from runner.options import OptionError

FP16 = {"weights": "fp16", "activations": "fp16", "compute": "fp16"}


@pytest.mark.parametrize(
    ("options", "recipe", "word"),
    [
        ({"deterministic": True}, FP32, "'deterministic' has no effect on device 'cpu'"),
        ({"deterministic": False}, FP32, "'deterministic' has no effect on device 'cpu'"),
        ({}, FP16, "fp16 graphs do not run on device 'cpu'"),
        ({"graph_optimization": "some"}, FP32, "allowed: disable, basic, extended, all"),
        ({}, {**FP32, "weights": "int8"}, "key 'recipe'"),
    ],
)
def test_what_cannot_be_in_force_is_refused(
    options: dict[str, Any], recipe: dict[str, Any], word: str
) -> None:
    with pytest.raises(OptionError, match=word):
        Backend(Path("never-opened"), make_spec("onnxruntime", options, recipe))
