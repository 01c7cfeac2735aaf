"""MLX folders for the backend mlx, by mlx-lm's converter (it also runs in MLX's CPU build)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sameweights.artifacts._tool import run_tool
from sameweights.errors import UserError

TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
BITS = {"int8": 8, "int4": 4}
GROUP_SIZE = 64


def convert(model: Path, recipe: Mapping[str, Any], out: Path, python: str) -> dict[str, Any]:
    """Write weights and config.json into the folder `out`; return how they were made.

    `python` runs in the backend's environment. Raises UserError with the converter's last words.
    """
    weights, compute = str(recipe["weights"]), str(recipe["compute"])
    if compute not in TYPES or weights not in (*TYPES, *BITS):
        raise UserError(
            f"mlx: recipe: weights {weights!r}, compute {compute!r}; allowed: "
            f"{', '.join(TYPES)}, and as weights {', '.join(BITS)}"
        )
    out.mkdir(parents=True, exist_ok=True)
    arguments = ["--dtype", TYPES[compute]]
    if weights in BITS:
        group = ["--q-group-size", str(GROUP_SIZE)]
        arguments += ["--quantize", "--q-bits", str(BITS[weights]), *group]
    with tempfile.TemporaryDirectory(dir=out.parent) as work:
        made = Path(work) / "mlx"
        command = [python, "-m", "mlx_lm", "convert", "--hf-path", str(model)]
        run_tool([*command, "--mlx-path", str(made), *arguments], "mlx")
        # Only what the converter has changed: the tokenizer's files are the model's own.
        for name in ("config.json", *(p.name for p in made.glob("*.safetensors"))):
            (made / name).rename(out / name)
    return {"tool": "mlx-lm", "arguments": arguments}
