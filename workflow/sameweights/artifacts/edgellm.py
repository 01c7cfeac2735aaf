"""ONNX for the backend trt_edgellm, by TensorRT Edge-LLM's exporter; needs an NVIDIA GPU here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sameweights.artifacts._tool import run_tool
from sameweights.errors import UserError


def convert(model: Path, recipe: Mapping[str, Any], out: Path, python: str) -> dict[str, Any]:
    """Write the exported model into the folder `out`; return how. Not run on a GPU yet.

    `python` runs in the backend's environment; the exporter lies beside it. Raises UserError for
    a precision that is not float16 and with the exporter's last words.
    """
    if recipe["weights"] != "fp16":
        raise UserError(f"edgellm: recipe: key 'weights' is {recipe['weights']!r}; allowed: fp16")
    program = Path(python).with_name("tensorrt-edgellm-export")
    run_tool([str(program), str(model), str(out)], "edgellm")
    return {"tool": "tensorrt-edgellm", "arguments": [program.name]}
