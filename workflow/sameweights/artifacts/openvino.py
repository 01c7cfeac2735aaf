"""OpenVINO models for the backend openvino, by optimum-intel's exporter."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sameweights.artifacts._tool import run_tool
from sameweights.errors import UserError

FORMATS = ("fp32", "int8")
KEPT = ("openvino_model.xml", "openvino_model.bin")


def convert(model: Path, recipe: Mapping[str, Any], out: Path, python: str) -> dict[str, Any]:
    """Write the model and its weights into the folder `out`; return how it was made.

    `python` runs in the backend's environment. Raises UserError with the exporter's last words.
    """
    weights = str(recipe["weights"])
    if weights not in FORMATS:
        raise UserError(
            f"openvino: recipe: key 'weights' is {weights!r}; allowed: {', '.join(FORMATS)}"
        )
    arguments = ["--task", "text-generation-with-past", "--weight-format", weights]
    command = [python, "-c", "from optimum.commands.optimum_cli import main; main()"]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as work:
        run_tool(
            [*command, "export", "openvino", "--model", str(model), *arguments, work], "openvino"
        )
        for name in KEPT:
            shutil.move(Path(work) / name, out / name)
    return {"tool": "optimum-intel", "arguments": arguments}
