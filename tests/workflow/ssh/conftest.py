"""A real sshd on loopback, and a cell whose work is a stand-in for the runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.contract import CellSpec, Request, RunRecord, file_sha256, write_jsonl
from sameweights.remote.client import Endpoint
from sameweights.remote.driver import run_on_device
from sameweights.remote.hostkeys import pin_host_key
from sameweights.remote.loopback import SSHD, LoopbackSshd
from sameweights.remote.ssh import SshTransport
from sameweights.remote.transport import Transport

PAYLOAD = Path(__file__).with_name("payload.py")

HUB = """
import sys
from pathlib import Path
from sameweights.remote.client import Endpoint
from sameweights.remote.driver import run_on_device
from sameweights.remote.ssh import SshTransport
folder, work, known, config = map(Path, sys.argv[1:5])
endpoint = Endpoint("box", "loopback", str(work), known, sys.executable, config)
run_on_device(SshTransport(endpoint, sys.executable), Path(sys.argv[5]), folder / "cell.json",
              folder / "requests.jsonl", folder / "model", folder / "out")
"""


@dataclass
class Device:
    """One loopback device and one cell for it."""

    sshd: LoopbackSshd
    folder: Path
    endpoint: Endpoint
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return Path(self.endpoint.workdir)

    def transport(self, **changes: Any) -> SshTransport:
        return SshTransport(self.endpoint, sys.executable, delays_s=(0.05,) * 40, **changes)

    def write_cell(self, n_requests: int = 20, **options: Any) -> CellSpec:
        """Write cell.json, the requests and a model folder."""
        requests = self.folder / "requests.jsonl"
        records = [Request("loglikelihood", [n], [1]).to_json() for n in range(n_requests)]
        write_jsonl(requests, records)
        model = self.folder / "model"
        (model / "sub").mkdir(parents=True, exist_ok=True)
        (model / "model.safetensors").write_bytes(b"weights" * 1000)
        (model / "sub" / "it's a name; $HOME.json").write_text("{}")
        files = {
            p.relative_to(model).as_posix(): file_sha256(p) for p in model.rglob("*") if p.is_file()
        }
        spec = CellSpec(
            cell="m/box/torch/fp32/s0", model="m", device="box", backend="torch",
            precision="fp32", seed=0, replicate=0, adapter="torch", options=options, recipe={},
            env={}, threads=1, files=files, requests_sha256=file_sha256(requests),
        )  # fmt: skip
        (self.folder / "cell.json").write_text(json.dumps(spec.to_json()))
        return spec

    def run(self, transport: Transport | None = None, out: str = "out") -> RunRecord:
        return run_on_device(
            transport or self.transport(), PAYLOAD, self.folder / "cell.json",
            self.folder / "requests.jsonl", self.folder / "model", self.folder / out,
        )  # fmt: skip

    def start_hub(self, prelude: str = "") -> subprocess.Popen[bytes]:
        """Start a hub process of its own, to be killed or interrupted; `prelude` is its code."""
        known, config = self.endpoint.known_hosts, self.sshd.ssh_config
        words = [self.folder, self.work, known, config, PAYLOAD]
        return subprocess.Popen(
            [sys.executable, "-c", prelude + HUB, *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def starts(self) -> list[int]:
        """Return the process ids of all payloads that were ever started here."""
        found = [p.read_text().split() for p in self.work.glob("cells/*/starts")]
        return [int(pid) for pids in found for pid in pids]

    def await_log(self, text: str, out: str = "out") -> None:
        """Wait until the hub's copy of the log has a line."""
        log = self.folder / out / "runner.log"
        while not (log.is_file() and f"{text}\n" in log.read_text(errors="replace")):
            time.sleep(0.005)

    def when(self, texts: list[str], action: Callable[[], object]) -> threading.Thread:
        """Do something, in a thread, each time that the log gets the next of these lines."""

        def watch() -> None:
            for text in texts:
                self.await_log(text)
                action()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        return thread

    def reboot(self) -> None:
        """Kill every process of every job, and the connections."""
        for group in self.work.glob("jobs/*/pgid"):
            os.killpg(int(group.read_text()), signal.SIGKILL)
        self.sshd.cut()

    def once(self, ready: Callable[[], bool], action: Callable[[], object]) -> None:
        """Do something, in a thread, as soon as a condition holds."""

        def watch() -> None:
            while not ready():
                time.sleep(0.005)
            action()

        threading.Thread(target=watch, daemon=True).start()

    def items(self, out: str = "out") -> list[str]:
        log = (self.folder / out / "runner.log").read_text()
        return [line for line in log.splitlines() if line.startswith("item ")]


def is_alive(pid: int) -> bool:
    """Tell whether a process runs (a zombie does not)."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return done.stdout.strip() != b"" and not done.stdout.strip().startswith(b"Z")


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackSshd]:
    if SSHD is None:
        pytest.skip("sshd is not installed")
    with LoopbackSshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def device(sshd: LoopbackSshd, tmp_path: Path) -> Iterator[Device]:
    endpoint = Endpoint(
        "box", sshd.host, str(tmp_path / "work folder"), tmp_path / "known hosts" / "box",
        sys.executable, sshd.ssh_config,
    )  # fmt: skip
    pin_host_key(endpoint)
    device = Device(sshd, tmp_path, endpoint)
    device.write_cell()
    yield device
    device.transport().client.close()
    for pid in device.starts():
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(name="is_alive")
def is_alive_fixture() -> Callable[[int], bool]:
    return is_alive
