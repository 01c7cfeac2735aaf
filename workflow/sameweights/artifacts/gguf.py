"""GGUF files for the backend llamacpp, quantized by llama.cpp itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sameweights.artifacts._tool import run_tool
from sameweights.errors import UserError

FILE_TYPES = {
    "fp32": 0,
    "fp16": 1,
    "q4_0": 2,
    "q8_0": 7,
    "q4_k_m": 15,
    "q5_k_m": 17,
    "q6_k": 18,
    "bf16": 32,
}
"""llama.cpp's number of a file's type, by the recipe's weights."""

WRITER = Path(__file__).with_name("_write_gguf.py")
WRITTEN = "model.gguf"


def convert(model: Path, recipe: Mapping[str, Any], out: Path, python: str) -> dict[str, Any]:
    """Write model.gguf into the folder `out`; return how it was made.

    `python` runs in the backend's environment. Raises UserError for a model that is no plain
    Llama, with the key or tensor that says so.
    """
    weights = str(recipe["weights"])
    if weights not in FILE_TYPES:
        raise UserError(
            f"gguf: recipe: key 'weights' is {weights!r}; allowed: {', '.join(FILE_TYPES)}"
        )
    arguments = [str(model), str(out / WRITTEN), str(FILE_TYPES[weights])]
    out.mkdir(parents=True, exist_ok=True)
    # Isolated: beside the writer's file stands this one, which is named like the package it uses.
    run_tool([python, "-I", str(WRITER), *arguments], "gguf")
    return {"tool": "llama-cpp-python", "file_type": weights, "vocabulary": "none"}
