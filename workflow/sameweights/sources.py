"""Digests of our own source files, as parameters: Snakemake does not see an edited package."""

from __future__ import annotations

import hashlib
from pathlib import Path

WORKFLOW = Path(__file__).resolve().parent.parent
ASSETS = WORKFLOW.parent / "report"


def source_digest(*names: str) -> str:
    """SHA-256 over files, or all Python files of folders, below workflow/; 16 hex digits."""
    files: list[Path] = []
    for name in names:
        path = WORKFLOW / name
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return _digest(files, WORKFLOW)


def assets_digest(folder: Path = ASSETS) -> str:
    """SHA-256 over all files of the page's templates, scripts and styles; 16 hex digits.

    Snakemake knows a folder by its own time stamp, which an edited file inside does not change.
    """
    return _digest(sorted(path for path in folder.rglob("*") if path.is_file()), folder)


def _digest(files: list[Path], base: Path) -> str:
    sha = hashlib.sha256()
    for file in files:
        sha.update(file.relative_to(base).as_posix().encode() + b"\0")
        sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
