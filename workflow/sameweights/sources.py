"""Digests of our own source files, as parameters: Snakemake does not see an edited package."""

from __future__ import annotations

import hashlib
from pathlib import Path

WORKFLOW = Path(__file__).resolve().parent.parent


def source_digest(*names: str) -> str:
    """SHA-256 over files, or all Python files of folders, below workflow/; 16 hex digits."""
    sha = hashlib.sha256()
    for name in names:
        path = WORKFLOW / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            sha.update(file.relative_to(WORKFLOW).as_posix().encode() + b"\0")
            sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
