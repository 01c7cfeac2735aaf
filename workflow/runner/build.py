"""Build what a cell needs on this device before it can run: an engine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from runner.backends import load_adapter
from runner.checks import CheckFailure, check_files
from runner.contract import RUNNER_VERSION, CellSpec
from runner.engine import RECORD
from runner.host import set_environment
from runner.journal import Log
from runner.options import OptionError


def build_engine(
    spec: CellSpec,
    model: Path,
    checkpoint: Path | None,
    calibration: Path | None,
    out: Path,
    log: Log,
) -> None:
    """Build the cell's engine by its adapter and copy the record to `out`.

    Raises CheckFailure or OptionError for what does not fit, OSError and RuntimeError for what
    breaks.
    """
    if spec.runner_version != RUNNER_VERSION:
        raise CheckFailure(
            f"cell.json: key 'runner_version' is {spec.runner_version!r}, "
            f"this runner is {RUNNER_VERSION!r}"
        )
    check_files(model, spec.files, log)
    set_environment(spec.env, spec.threads)
    adapter: Any = load_adapter(spec.adapter)
    if not hasattr(adapter, "build"):
        raise OptionError(f"cell.json: key 'adapter' is {spec.adapter!r}, which builds nothing")
    folder: Path = adapter.build(model, spec, checkpoint, calibration, log)
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / RECORD, out)
