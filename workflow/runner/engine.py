"""Engines built on this device: where one lies, and the record that says what it is.

`engines/<key>/` below the device's work folder holds the engine's files and `engine.json`, which
is written last: its presence means that the build ended well. A finished engine is never built
again, so that a resumed cell continues on the very same engine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.checks import CheckFailure, check_files
from runner.contract import CellSpec, digest

ENGINES = Path("engines")
RECORD = "engine.json"


def engine_key(spec: CellSpec) -> str:
    """Hash of all that decides upon an engine; equal for every seed and replicate of a cell."""
    facts = {
        "adapter": spec.adapter,
        "device": spec.device,
        "files": spec.files,
        "options": spec.options,
        "recipe": spec.recipe,
    }
    return digest(facts)[:16]


def engine_folder(spec: CellSpec, root: Path = ENGINES) -> Path:
    """Return the folder of the cell's engine."""
    return root / engine_key(spec)


def read_engine(spec: CellSpec, root: Path = ENGINES) -> tuple[Path, dict[str, Any]]:
    """Return the folder and record of the cell's engine; every file is compared with its hash.

    Raises CheckFailure for an engine that is missing, changed or of another cell.
    """
    folder = engine_folder(spec, root)
    path = folder / RECORD
    if not path.is_file():
        raise CheckFailure(
            f"{path}: no engine is built for {spec.cell}; rule build_engine makes it"
        )
    record: dict[str, Any] = json.loads(path.read_bytes())
    if record.get("key") != engine_key(spec):
        raise CheckFailure(f"{path}: key {record.get('key')!r}, the cell needs {engine_key(spec)}")
    # build.log is not part of the engine: extra files are no news here.
    check_files(folder, record["files"], lambda _: None)
    return folder, record


def write_engine(folder: Path, record: dict[str, Any]) -> None:
    """Write engine.json through a temporary name."""
    part = folder / f"{RECORD}.part"
    part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(folder / RECORD)
