"""A checkpoint made on the hub: converted once by stand-in programs, and built from on a device."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.contract.conftest import make_spec
from tests.contract.trtllm_stub import EXAMPLES, STUBS, inside, stub_runtime

from runner.backends import _trtllm_convert
from runner.backends.trtllm_engine import Backend
from runner.contract import file_sha256
from runner.engine import read_engine
from sameweights.artifacts import make_artifact, trtllm
from sameweights.errors import UserError

INT8 = {"weights": "int8", "activations": "fp16", "compute": "fp16", "library": "tensorrt_llm"}


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python of an environment with the stand-in of 1.2.1."""
    script = tmp_path / "python"
    stubs = f"{STUBS / 'trtllm_1_2'}:{STUBS}"
    words = f'export PYTHONPATH="{stubs}:$PYTHONPATH"\nexec {shlex.quote(sys.executable)} "$@"\n'
    script.write_text(f"#!/bin/sh\n{words}")
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_one_checkpoint_serves_two_devices(
    tmp_path: Path, model: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trtllm.convert, "__defaults__", (EXAMPLES, trtllm.CALIBRATIONS))
    manifest = tmp_path / "model.json"
    manifest.write_text('{"digest": "d"}')
    folder, made = tmp_path / "artifact", tmp_path / "artifact.json"
    make_artifact("trtllm", "m", model, manifest, INT8, python, folder, made)
    record = json.loads(made.read_bytes())
    assert record["source"]["how"]["tensorrt_llm"] == "1.2.1"
    script = EXAMPLES / "llama/convert_checkpoint.py"
    assert record["source"]["how"]["converter_sha256"] == file_sha256(script)
    assert sorted(record["files"]) == ["checkpoint/config.json", "config.json", "tokenizer.json"]

    engines = []
    for device in ("one", "two"):
        spec = make_spec("trtllm_engine", {"examples": "nowhere"}, INT8)
        spec = replace(spec, device=device, files=record["files"])
        (tmp_path / device).mkdir()
        with stub_runtime("trtllm_1_2"), inside(tmp_path / device):
            Backend.build(folder, spec, None, None, print)
            engines.append(read_engine(spec)[1])
    assert [engine["checkpoint"]["made"] for engine in engines] == ["elsewhere"] * 2
    assert engines[0]["weights_digest"] == engines[1]["weights_digest"]
    assert engines[0]["checkpoint"]["files"] == engines[1]["checkpoint"]["files"]
    commands = [Path(command[0]).name for engine in engines for command in engine["commands"]]
    assert commands == ["trtllm-build"] * 2, "nothing is converted on a device"


def test_the_texts_that_the_recipe_pins_reach_the_converter(
    tmp_path: Path, model: Path, python: str
) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "any.jsonl").write_text('{"text":"one"}\n{"text":"two"}\n')
    recipe: dict[str, Any] = {**INT8, "activations": "int8-smoothquant"}
    recipe["calibration"] = file_sha256(texts / "any.jsonl")
    out = tmp_path / "out"
    out.mkdir()
    how = trtllm.convert(model, recipe, out, python, EXAMPLES, texts)
    assert how["calibration_sha256"] == recipe["calibration"]
    quantization = json.loads((out / "checkpoint/config.json").read_bytes())["quantization"]
    assert quantization["quant_algo"] == "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN"
    assert [p.name for p in out.iterdir()] == ["checkpoint"]
    with pytest.raises(UserError, match="no file has the SHA-256"):
        trtllm.convert(model, {**recipe, "calibration": "0" * 64}, out, python, EXAMPLES, texts)


@pytest.mark.parametrize(
    ("recipe", "examples", "said"),
    [
        (INT8, "nowhere", "nowhere: has none of llama/convert_checkpoint.py"),
        ({**INT8, "weights": "int3"}, str(EXAMPLES), "int3"),
        ({**INT8, "calibration": "0" * 64}, str(EXAMPLES), "uses no texts|no file has"),
    ],
)
def test_what_does_not_fit_is_said(
    recipe: dict[str, Any], examples: str, said: str, tmp_path: Path, model: Path, python: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(UserError, match=said):
        trtllm.convert(model, recipe, out, python, Path(examples), tmp_path)


def test_hub_and_device_agree_where_the_checkpoint_lies(root: Path) -> None:
    assert trtllm.CHECKPOINT == _trtllm_convert.CHECKPOINT
    assert _trtllm_convert.__name__ == trtllm.MODULE
    assert str(trtllm.EXAMPLES) == Backend.OPTIONS["examples"].default
    entry = yaml.safe_load((root / "config/backends/trtllm-engine-hub.yaml").read_text())
    other = yaml.safe_load((root / "config/backends/trtllm-engine.yaml").read_text())
    assert entry.pop("artifact") == "trtllm"
    assert {**entry, "description": ""} == {**other, "description": ""}
