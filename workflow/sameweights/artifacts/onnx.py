"""ONNX graphs for the backend onnxruntime, by onnxruntime-genai's model builder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sameweights.artifacts._tool import run_tool
from sameweights.errors import UserError

PROVIDERS = {"fp32": "cpu", "fp16": "cuda", "int8": "cpu", "int4": "cpu"}
"""The provider that the builder writes a graph for, by the recipe's weights."""

ACCURACY = {"fp32": 1, "int8-dynamic": 4}
"""MatMulNBits' accuracy level by the recipe's activations; the builder's own default is 4."""

KEPT = ("model.onnx", "model.onnx.data", "genai_config.json")


def convert(model: Path, recipe: Mapping[str, Any], out: Path, python: str) -> dict[str, Any]:
    """Write the graph, its weights and its settings into the folder `out`; return how.

    `python` runs in the backend's environment. Raises UserError with the builder's last words.
    """
    weights = str(recipe["weights"])
    if weights not in PROVIDERS:
        raise UserError(
            f"onnx: recipe: key 'weights' is {weights!r}; allowed: {', '.join(PROVIDERS)}"
        )
    arguments = ["-p", weights, "-e", PROVIDERS[weights]]
    if weights.startswith("int"):
        arguments += ["--extra_options", f"accuracy_level={ACCURACY[recipe['activations']]}"]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as work:
        built = Path(work) / "built"
        command = [python, "-m", "onnxruntime_genai.models.builder", "-i", str(model)]
        run_tool([*command, "-o", str(built), "-c", f"{work}/cache", *arguments], "onnx")
        # Its copies of the tokenizer's files are rewritten: the model's own are used.
        for name in KEPT:
            shutil.move(built / name, out / name)
    return {"tool": "onnxruntime-genai", "arguments": arguments}
