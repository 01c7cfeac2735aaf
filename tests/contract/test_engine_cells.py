"""A cell with an engine from the hub's side: built on its device, run, and what can go wrong."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.conftest import STUB_OPTIONS, make_spec
from tests.contract.trtllm_stub import STUBS

from runner.contract import Request, file_sha256, write_jsonl
from runner.pack import build_pyz
from sameweights.engines import build_on_device, find_calibration, why_no_engine
from sameweights.errors import UserError
from sameweights.remote.driver import run_on_device
from sameweights.remote.local import LocalTransport

ENGINE = "tiny/here/trtllm_engine/fp32"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> LocalTransport:
    """This machine with the stand-in of 0.12 as its TensorRT-LLM."""
    folder = tmp_path_factory.mktemp("device")
    python = folder / "python"
    words = {
        "PYTHONPATH": f"{STUBS / 'trtllm_0_12'}:{STUBS}",
        "PATH": f"{STUBS / 'programs'}:$PATH",
    }
    exports = "".join(f'export {name}="{value}"\n' for name, value in words.items())
    python.write_text(f'#!/bin/sh\n{exports}exec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return LocalTransport(folder / "work", str(python))


def test_an_engine_is_built_then_run_and_its_record_is_part_of_the_run(
    device: LocalTransport, tiny_model: Path, tmp_path: Path
) -> None:
    requests = [
        Request("loglikelihood", [5, 6, 7], [8, 9]),
        Request("generate", [5, 6], max_new_tokens=4),
    ]
    write_jsonl(tmp_path / "requests.jsonl", (r.to_json() for r in requests))
    spec = replace(
        make_spec("trtllm_engine", STUB_OPTIONS["trtllm_engine"]),
        files={p.name: file_sha256(p) for p in tiny_model.iterdir()},
        requests_sha256=file_sha256(tmp_path / "requests.jsonl"),
    )
    specs = tmp_path / "specs.json"
    specs.write_text(json.dumps({f"{ENGINE}/s0/r0": spec.to_json()}))
    runner = tmp_path / "runner.pyz"
    build_pyz(runner)

    cell = tmp_path / "cell.json"
    cell.write_text(json.dumps(spec.to_json()))
    early = run_on_device(
        device, runner, cell, tmp_path / "requests.jsonl", tiny_model, tmp_path / "early"
    )
    assert early.outcome == "stopped"
    assert "rule build_engine makes it" in (early.reason or "")

    out = tmp_path / "engine/engine.json"
    record = build_on_device(device, runner, specs, ENGINE, tiny_model, tmp_path, out)
    assert record["outcome"] == "complete", record["reason"]
    assert why_no_engine(out) is None

    run = run_on_device(
        device, runner, cell, tmp_path / "requests.jsonl", tiny_model, tmp_path / "run"
    )
    assert run.outcome == "complete", run.reason
    assert run.counts == {"ok": 2}
    assert run.environment["backend"]["engine"] == record["engine"]
    assert run.environment["backend"]["generation"] == "executor"


def test_a_failed_build_fails_its_runs_with_the_reason(
    device: LocalTransport, tiny_model: Path, tmp_path: Path
) -> None:
    spec = make_spec("trtllm_engine", {"examples": "nowhere"})
    specs = tmp_path / "specs.json"
    specs.write_text(json.dumps({f"{ENGINE}/s0/r0": spec.to_json()}))
    runner = tmp_path / "runner.pyz"
    build_pyz(runner)
    out = tmp_path / "engine.json"
    record = build_on_device(device, runner, specs, ENGINE, tiny_model, tmp_path, out)
    assert record["outcome"] == "failed"
    reason = why_no_engine(out)
    assert reason is not None
    assert "nowhere: has none of" in reason
    cell = tmp_path / "cell.json"
    cell.write_text(json.dumps(spec.to_json()))
    run = run_on_device(device, runner, cell, out, tiny_model, tmp_path / "run", reason)
    assert run.outcome == "failed"
    assert "nowhere: has none of" in (run.reason or "")


def test_texts_are_found_by_their_hash_alone(tmp_path: Path) -> None:
    texts = tmp_path / "any-name.jsonl"
    texts.write_text('{"text":"one"}\n')
    assert find_calibration({}, tmp_path) is None
    assert find_calibration({"calibration": file_sha256(texts)}, tmp_path) == texts
    with pytest.raises(UserError, match="no file has the SHA-256"):
        find_calibration({"calibration": "0" * 64}, tmp_path)
