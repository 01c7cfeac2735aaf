"""`snakemake --profile NAME` finds its profile and its part of the matrix from the root."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sameweights.cells import Registries, plan_matrix
from sameweights.config import load_config


@pytest.mark.parametrize("name", ["local", "jetson", "mac", "cloud", "nightly"])
def test_a_profile_is_found_from_the_root_and_plans_its_matrix(root: Path, name: str) -> None:
    assert (root / name).is_symlink()
    profile = yaml.safe_load((root / name / "config.yaml").read_text())
    assert profile["keep-going"] is True
    raw = yaml.safe_load((root / "config/config.yaml").read_text())
    if "configfile" in profile:
        raw |= yaml.safe_load((root / profile["configfile"]).read_text())
    registries = Registries.read(root / "config")
    matrix = plan_matrix(load_config(raw), registries, root / "config/capabilities.yaml")
    planned = {cell.device for cell in matrix.planned}
    remote = {d for d in planned if registries.devices.entries[d].transport == "ssh"}
    assert len(remote) == {"local": 0, "nightly": 3}.get(name, 1)
    slots = sum(registries.devices.entries[d].slots for d in planned)
    assert name == "local" or profile["cores"] >= slots
