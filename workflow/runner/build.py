"""Build what a cell needs on this device before it can run: an engine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from runner.backends import load_adapter
from runner.checks import check_environment, check_files, check_runner
from runner.contract import CellSpec
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
    check_runner(spec)
    check_environment(spec)
    check_files(model, spec.files, log)
    set_environment(spec.env, spec.threads)
    adapter: Any = load_adapter(spec.adapter)
    if not hasattr(adapter, "build"):
        raise OptionError(f"cell.json: key 'adapter' is {spec.adapter!r}, which builds nothing")
    folder: Path = adapter.build(model, spec, checkpoint, calibration, log)
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / RECORD, out)
