"""What all tests share: the repository's root, the handed material, the demo model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Material handed along with the project; it is not part of the repository."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"{folder.name}/ is not beside the repository")
    return folder


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """Folder of the demo model: from the environment, or fetched as the workflow does it."""
    named = os.environ.get("SAMEWEIGHTS_DEMO_MODEL")
    if named:
        return Path(named)
    folder = ROOT / "results" / "models" / "smollm2-135m-instruct"
    manifest = folder.with_name(folder.name + ".manifest.json")
    if not manifest.is_file():
        from sameweights.models import fetch_model
        from sameweights.registry import ModelEntry, read_entry

        entry = read_entry(ROOT / "config/models/smollm2-135m-instruct.yaml", ModelEntry)
        fetch_model(entry, folder.name, folder, manifest)
    return folder
