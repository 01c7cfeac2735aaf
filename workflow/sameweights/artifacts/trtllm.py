"""TensorRT-LLM checkpoints for the backend trtllm_engine: the same int8 bits on every device.

The converters are no part of the package: their folder `examples` of the same version's sources
stands at EXAMPLES. Most need an NVIDIA GPU; not run with the real package yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sameweights.artifacts._tool import run_tool
from sameweights.engines import find_calibration

EXAMPLES = Path("TensorRT-LLM/examples")
CALIBRATIONS = Path("config/calibration")
MODULE = "runner.backends._trtllm_convert"
WORKFLOW = Path(__file__).resolve().parents[2]
CHECKPOINT = "checkpoint"
"""Where the backend looks for it inside the model's folder."""


def convert(
    model: Path,
    recipe: Mapping[str, Any],
    out: Path,
    python: str,
    examples: Path = EXAMPLES,
    calibrations: Path = CALIBRATIONS,
) -> dict[str, Any]:
    """Write the checkpoint into `out`/checkpoint; return the converter's hash, recipe and version.

    `python` runs in the backend's environment. Raises UserError for calibration texts that no file
    of `calibrations` holds, and with the converter's last words.
    """
    texts = find_calibration(recipe, calibrations)
    command = [python, "-m", MODULE, "--model", str(model), "--recipe", json.dumps(dict(recipe))]
    command += ["--out", str(out / CHECKPOINT), "--examples", str(examples)]
    command += ["--calibration", str(texts)] if texts else []
    said = run_tool(command, "trtllm", {"PYTHONPATH": str(WORKFLOW)})
    how: dict[str, Any] = json.loads(said.splitlines()[-1])
    return {"tool": "tensorrt_llm", **how}
