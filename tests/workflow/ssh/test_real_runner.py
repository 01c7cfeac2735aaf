"""The packed runner itself behind SSH, with the backend that needs no model."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.contract import (
    CellSpec,
    Request,
    RunRecord,
    file_sha256,
    read_responses,
    write_jsonl,
)
from runner.pack import build_pyz
from sameweights.remote.driver import run_on_device
from sameweights.remote.local import LocalTransport
from sameweights.remote.provision import Environment, provision
from sameweights.remote.transport import Transport

N = 30


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    """Write a cell of both kinds of requests for the runner's model-free backend."""
    folder = tmp_path / "real"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights").write_bytes(b"table")
    requests = folder / "requests.jsonl"
    write_jsonl(
        requests,
        [Request("loglikelihood", [n, n + 1], [n + 2]).to_json() for n in range(1, N)]
        + [Request("generate", [n], max_new_tokens=8).to_json() for n in range(1, N)],
    )
    spec = CellSpec(
        cell="m/box/fake/fp32/s0", model="m", device="box", backend="fake", precision="fp32",
        seed=0, replicate=0, adapter="fake", options={"batch_sleep_ms": 10},
        recipe={"weights": "fp32", "activations": "fp32", "compute": "fp32"}, env={}, threads=1,
        files={"weights": file_sha256(folder / "model" / "weights")},
        requests_sha256=file_sha256(requests),
    )  # fmt: skip
    (folder / "cell.json").write_text(json.dumps(spec.to_json()))
    build_pyz(folder / "runner.pyz")
    return folder


def run(cell: Path, transport: Transport, out: str) -> list[dict[str, Any]]:
    record = run_on_device(
        transport, cell / "runner.pyz", cell / "cell.json", cell / "requests.jsonl",
        cell / "model", cell / out,
    )  # fmt: skip
    assert (record.outcome, record.reason) == ("complete", None)
    responses = [r.to_json() for r in read_responses(cell / out / "responses.jsonl")]
    # The time that a response took is the only thing that may differ.
    return [{**r, "elapsed_s": None} for r in responses]


def test_the_packed_runner_gives_the_same_responses_over_ssh(device: Any, cell: Path) -> None:
    local = run(cell, LocalTransport(cell / "local-work", sys.executable), "local")
    assert run(cell, device.transport(), "ssh") == local
    assert len(local) == 2 * (N - 1)


def test_a_rebooted_device_ends_with_the_same_responses(device: Any, cell: Path) -> None:
    local = run(cell, LocalTransport(cell / "local-work", sys.executable), "local")
    device.once(lambda: len(_journals(device)) > 0, device.reboot)
    assert run(cell, device.transport(), "ssh") == local


def _journals(device: Any) -> list[Path]:
    found = device.work.glob("cells/*/responses.jsonl")
    return [path for path in found if path.read_bytes().count(b"\n") > 5]


def test_a_missing_environment_names_the_command_that_makes_it(cell: Path, device: Any) -> None:
    transport = device.transport()
    transport._program = ["envs/none/bin/python"]
    record = run_on_device(
        transport, cell / "runner.pyz", cell / "cell.json", cell / "requests.jsonl",
        cell / "model", cell / "out",
    )  # fmt: skip
    assert record.outcome == "failed"
    assert record.reason is not None
    assert "run `sameweights provision box --backend fake`" in record.reason


def test_an_environment_of_an_older_lock_is_refused_until_it_is_provisioned(
    cell: Path, device: Any, tmp_path: Path
) -> None:
    lock = tmp_path / "lock.txt"
    environment = Environment("envs/e/bin/python", lock)
    transport = device.transport()
    transport._program = ["envs/e/bin/python"]

    def attempt() -> RunRecord:
        spec = CellSpec.from_json(json.loads((cell / "cell.json").read_bytes()))
        spec = replace(spec, requirements_sha256=file_sha256(lock))
        (cell / "cell.json").write_text(json.dumps(spec.to_json()))
        return run_on_device(
            transport, cell / "runner.pyz", cell / "cell.json", cell / "requests.jsonl",
            cell / "model", cell / "out",
        )  # fmt: skip

    lock.write_text("# nothing\n")
    provision(device.transport(), environment, tmp_path / "log")
    assert attempt().outcome == "complete"
    lock.write_text("# nothing, but another lock\n")
    refused = attempt()
    assert refused.outcome == "failed" and refused.reason is not None
    assert "made from the lock file" in refused.reason
    assert "run `sameweights provision box --backend fake`" in refused.reason
    provision(device.transport(), environment, tmp_path / "log")
    assert attempt().outcome == "complete"
