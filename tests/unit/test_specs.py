"""cell.json: the lock file of a backend's environment is part of a cell's identity."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runner.contract import CellSpec
from sameweights.cells import Cell, Registries
from sameweights.errors import UserError
from sameweights.specs import lock_sha256, specify_run

LOCK = "config/requirements/own.txt"


@pytest.fixture
def registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registries:
    monkeypatch.chdir(tmp_path)
    for path, record in {
        "models/m": None,
        "devices/d": {"description": "d"},
        "backends/plain": {"description": "p", "adapter": "fake"},
        "backends/own": {"description": "o", "adapter": "fake", "requirements": LOCK},
        "precisions/p": {"description": "p", "recipe": {}, "canary_tolerance_nats": 0.1},
    }.items():
        file = Path("config") / f"{path}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        if record:
            file.write_text(yaml.safe_dump(record))
    Path(LOCK).parent.mkdir()
    Path(LOCK).write_text("runtime==1.0\n")
    return Registries.read(Path("config"))


def specify(registries: Registries, backend: str) -> CellSpec:
    cell = Cell("m", "d", backend, "p", 0)
    lock = lock_sha256(registries.backends.get(backend, cell.id).requirements)
    return specify_run(cell, 0, registries, {"files": {}}, lock, "0" * 64, {}, None)


def test_another_lock_is_another_cell(registries: Registries) -> None:
    before = {name: specify(registries, name) for name in ("plain", "own")}
    Path(LOCK).write_text("runtime==1.1\n")
    after = {name: specify(registries, name) for name in ("plain", "own")}
    assert before["own"].identity != after["own"].identity
    assert before["plain"].identity == after["plain"].identity
    assert CellSpec.from_json(after["own"].to_json()) == after["own"]


def test_a_cell_without_an_environment_of_its_own_has_no_such_key(registries: Registries) -> None:
    assert "requirements_sha256" not in specify(registries, "plain").to_json()


def test_a_missing_lock_is_an_error_that_names_it(registries: Registries) -> None:
    Path(LOCK).unlink()
    with pytest.raises(UserError, match=r"own\.txt: no such requirements file"):
        specify(registries, "own")
