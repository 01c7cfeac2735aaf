"""Artefacts: made once, hashed, and what a cell with one loads."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sameweights.artifacts as artifacts
from runner.contract import file_sha256
from sameweights.artifacts import converter_names, load_converter, make_artifact
from sameweights.cells import Cell, Registries
from sameweights.environments import environment_python, make_environment
from sameweights.errors import UserError
from sameweights.paths import Layout
from sameweights.registry import BackendEntry
from sameweights.specs import find_manifest


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A results folder with a model `m` of three files and its manifest."""
    layout = Layout(tmp_path)
    folder = layout.model("m")
    folder.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text(f"the model's {name}")
    layout.manifest("m").write_text(json.dumps({"files": {"a": "0" * 64}, "digest": "d"}))
    return layout


def make(layout: Layout, monkeypatch: pytest.MonkeyPatch, convert: Any) -> None:
    module = SimpleNamespace(convert=convert)
    monkeypatch.setattr(artifacts, "load_converter", lambda _: module)
    make_artifact(
        "tiny",
        "m",
        layout.model("m"),
        layout.manifest("m"),
        {"weights": "int8"},
        sys.executable,
        layout.artifact("m", "tiny", "q"),
        layout.artifact_manifest("m", "tiny", "q"),
    )


def test_the_manifest_names_every_file_and_how_it_was_made(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(model: Path, recipe: Mapping[str, Any], out: Path, python: str) -> dict[str, Any]:
        (out / "weights.bin").write_bytes((model / "model.safetensors").read_bytes()[::-1])
        return {"tool": python, "weights": recipe["weights"]}

    make(layout, monkeypatch, convert)
    folder = layout.artifact("m", "tiny", "q")
    record = json.loads(layout.artifact_manifest("m", "tiny", "q").read_text())
    assert record["files"] == {p.name: file_sha256(p) for p in folder.iterdir()}
    assert set(record["files"]) == {"weights.bin", "config.json", "tokenizer.json"}
    assert (folder / "tokenizer.json").read_text() == "the model's tokenizer.json"
    versions = record["source"].pop("versions")
    assert versions["pytest"] == importlib.metadata.version("pytest")
    assert record["source"] == {
        "kind": "artifact",
        "converter": "tiny",
        "recipe": {"weights": "int8"},
        "from": "d",
        "how": {"tool": sys.executable, "weights": "int8"},
    }


def test_a_conversion_that_fails_leaves_nothing_that_looks_whole(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(model: Path, recipe: Mapping[str, Any], out: Path, python: str) -> dict[str, Any]:
        (out / "half.bin").write_bytes(b"x")
        raise UserError("tiny: ended with exit code 1")

    with pytest.raises(UserError, match="exit code 1"):
        make(layout, monkeypatch, convert)
    assert not layout.artifact("m", "tiny", "q").exists()
    assert not layout.artifact_manifest("m", "tiny", "q").exists()


def test_every_converter_has_its_function_and_an_unknown_one_names_the_nearest() -> None:
    for name in converter_names():
        assert callable(load_converter(name).convert)
    with pytest.raises(UserError, match=r"key 'artifact' is 'no-such'; allowed: "):
        load_converter("no-such")


def test_a_cell_loads_its_backends_artefact_or_else_the_model(
    layout: Layout, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    for kind in ("models", "devices", "backends", "precisions"):
        (config / kind).mkdir(parents=True)
    (config / "backends" / "plain.yaml").write_text("description: ''\nadapter: a\n")
    (config / "backends" / "made.yaml").write_text("description: ''\nadapter: a\nartifact: tiny\n")
    registries = Registries.read(config)
    manifest = layout.artifact_manifest("m", "tiny", "q")
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"files": {"b": "1" * 64}}))
    found = {
        backend: json.loads(
            find_manifest(layout, Cell("m", "d", backend, "q", 0), registries).read_bytes()
        )["files"]
        for backend in registries.backends.entries
    }
    assert found == {"plain": {"a": "0" * 64}, "made": {"b": "1" * 64}}


def test_an_environment_is_named_after_its_requirements() -> None:
    made = BackendEntry(
        description="", adapter="a", requirements="config/requirements/onnxruntime.txt"
    )
    assert made.environment == "onnxruntime"
    assert BackendEntry(description="", adapter="a").environment is None


def test_the_hub_makes_an_environment_and_says_where_it_could_not(tmp_path: Path) -> None:
    requirements, log = tmp_path / "none.txt", tmp_path / "log"
    requirements.write_text("# nothing to install\n")
    make_environment(requirements, tmp_path / "envs" / "none.installed", log)
    assert environment_python(tmp_path / "envs" / "none").is_file()
    lines = (tmp_path / "envs" / "none.installed").read_text().splitlines()
    assert lines == [file_sha256(requirements)] * 2
    requirements.write_text("/no/such/wheel.whl\n")
    with pytest.raises(UserError, match=r"none\.txt: not installed into .*; see .*log"):
        make_environment(requirements, tmp_path / "envs" / "none.installed", log)
