"""A real other instruction set: cells on an emulated arm64 host behind its own sshd.

Too slow for CI (minutes, as root). By hand:
  tests/workflow/ssh/make_aarch64_host.sh /tmp/arm64
  SAMEWEIGHTS_AARCH64_HOST=/tmp/arm64 python -m pytest -s tests/workflow/ssh/test_other_isa.py
numpy and torch are found inside at opt/torch, where `pip install --target` puts aarch64 wheels,
and a wheel of numpy to be provisioned in opt/wheels: docs/faults.md has the commands. Without them
these tests are skipped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.pack import build_pyz
from sameweights.remote.client import Endpoint
from sameweights.remote.driver import run_on_device
from sameweights.remote.hostkeys import pin_host_key
from sameweights.remote.local import LocalTransport
from sameweights.remote.probe import MATMUL
from sameweights.remote.provision import Environment, provision
from sameweights.remote.ssh import SshTransport
from sameweights.remote.transport import Parcel, Transport

sys.path.insert(0, str(Path(__file__).parent))
from emulated import EmulatedSshd
from tiny import without_times, write_cell, write_tiny_model

PACKAGES = "/opt/torch"
NAMED = "SAMEWEIGHTS_AARCH64_HOST"

NUMPY = """\
import hashlib, json, sys
import numpy
rows = numpy.frombuffer(open(sys.argv[1], "rb").read(), dtype="<f4").reshape(-1, 256)
def sha(array): return hashlib.sha256(numpy.ascontiguousarray(array).data).hexdigest()
print(json.dumps({
    "add": sha(rows + rows[::-1]), "sum": sha(rows.sum(axis=1)), "exp": sha(numpy.exp(rows)),
    "exp fp64": sha(numpy.exp(rows.astype("f8"))), "log": sha(numpy.log(abs(rows) + 1)),
    "matmul 64x256x64": sha(rows[:64] @ rows[:64].T), "argmax": sha(rows.argmax(axis=1)),
}))
"""


@pytest.fixture(scope="module")
def host() -> Path:
    named = os.environ.get(NAMED)
    if not named:
        pytest.skip(f"{NAMED} is not set: emulation takes minutes, see this file")
    return Path(named)


@pytest.fixture(scope="module")
def arm(host: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshTransport]:
    folder = tmp_path_factory.mktemp("arm")
    with EmulatedSshd(folder / "sshd", host) as sshd:
        endpoint = Endpoint(
            "arm", sshd.host, "sameweights", folder / "pin", "python3", sshd.ssh_config
        )
        pin_host_key(endpoint)
        transport = SshTransport(
            endpoint, env={"PYTHONPATH": PACKAGES, "QEMU_CPU": "cortex-a76"}, timeout_s=3000
        )
        transport.clean(everything=True)
        yield transport
        transport.client.close()


def need(host: Path, package: str) -> None:
    if not (host / PACKAGES[1:] / package).is_dir():
        pytest.skip(f"{host}{PACKAGES}/{package} is not there")


def run_cell(folder: Path, transport: Transport, model: Path, cell: Path) -> list[dict[str, Any]]:
    out = folder / transport.device
    record = run_on_device(
        transport, folder / "runner.pyz", cell, folder / "requests.jsonl", model, out
    )
    assert (record.outcome, record.reason) == ("complete", None)
    machine = record.environment["host"]["machine"]
    assert machine == ("aarch64" if transport.device == "arm" else os.uname().machine)
    return without_times(out / "responses.jsonl")


def run_both(
    folder: Path, arm: SshTransport, model: Path, adapter: str, **options: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    build_pyz(folder / "runner.pyz")
    here = LocalTransport(folder / "here", sys.executable)
    cells = [write_cell(folder, model, d, adapter, {}, **options) for d in ("here", "arm")]
    return run_cell(folder, here, model, cells[0]), run_cell(folder, arm, model, cells[1])


def test_the_model_free_backend_gives_equal_answers(arm: SshTransport, tmp_path: Path) -> None:
    model = tmp_path / "table"
    model.mkdir()
    (model / "weights").write_bytes(b"table")
    here, there = run_both(tmp_path, arm, model, "fake")
    assert there == here


def test_numpy_agrees_where_arithmetic_is_exact(
    arm: SshTransport, host: Path, tmp_path: Path
) -> None:
    need(host, "numpy")
    import numpy as np

    assert arm.run(["-c", MATMUL], tmp_path / "matmul") == 0
    assert (tmp_path / "matmul").read_text() == "exact\n"
    data, script = tmp_path / "rows", tmp_path / "numpy_check.py"
    # Shipped as bytes: drawing is not the same on two instruction sets.
    data.write_bytes(np.random.default_rng(3).standard_normal((512, 256), "f4").tobytes())
    script.write_text(NUMPY)
    here = LocalTransport(tmp_path / "here", sys.executable)
    found = []
    for transport in (here, arm):
        log = tmp_path / transport.device
        log = log.with_suffix(".log")
        words = transport.push(Parcel(script, script.name), Parcel(data, "rows"))
        assert transport.run(words, log) == 0
        found.append(json.loads(log.read_text()))
    same = {name: found[0][name] == found[1][name] for name in found[0]}
    print(f"\nnumpy, equal bits: {same}")
    assert same["add"] and same["argmax"]


def test_an_environment_is_provisioned_offline(
    arm: SshTransport, host: Path, tmp_path: Path
) -> None:
    wheels = host / "opt/wheels"
    if not list(wheels.glob("numpy-*aarch64.whl")):
        pytest.skip(f"{wheels} has no wheel of numpy")
    lock, log = tmp_path / "lock.txt", tmp_path / "log"
    lock.write_text("numpy\n")
    wanted = Environment("envs/numpy/bin/python", lock, wheels)
    provision(arm, wanted, log)
    assert log.read_text().endswith("envs/numpy installed\n")
    inside = SshTransport(arm.client.endpoint, python=wanted.python, env={"QEMU_CPU": "cortex-a76"})
    assert inside.run(["-c", "import numpy; print(numpy.__file__)"], log) == 0
    assert "/sameweights/envs/numpy/" in log.read_text()


def test_torch_agrees_to_rounding(arm: SshTransport, host: Path, tmp_path: Path) -> None:
    need(host, "torch")
    model = tmp_path / "tiny"
    write_tiny_model(model)
    here, there = run_both(tmp_path, arm, model, "torch", batch_size=4)
    equal = sum(a["logits_sha256"] == b["logits_sha256"] for a, b in zip(here, there, strict=True))
    texts = sum(a["token_ids"] == b["token_ids"] for a, b in zip(here, there, strict=True))
    scored = [(a, b) for a, b in zip(here, there, strict=True) if a["loglikelihood"] is not None]
    worst = max(abs(a["loglikelihood"] - b["loglikelihood"]) for a, b in scored)
    print(
        f"\ntorch: {equal} of {len(here)} hashes of logits equal, {texts} of {len(here)} token"
        f" sequences equal, log-likelihoods of 8 tokens differ by at most {worst:.2g} nats"
    )
    assert [r["request_id"] for r in there] == [r["request_id"] for r in here]
    assert worst < 1e-2
