"""What SSH costs, against a loopback server: per command, per megabyte, per cell.

Usage: python benchmarks/ssh_overhead.py [--megabytes 500] [--requests 1000] [--request-ms 20]
Exits 1 when a budget is missed: 30 ms a command of the agent on a warm connection, 80% of the
better of rsync and scp for a push, 5% on a cell. The push is one of known hash, as a model's
files are. The cell is the tests' stand-in runner, sleeping `request-ms` for each request, so that
only the transport differs between local and SSH.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from runner.contract import CellSpec, Request, file_sha256, write_jsonl
from sameweights.remote.client import Endpoint, SshClient
from sameweights.remote.driver import run_on_device
from sameweights.remote.hostkeys import pin_host_key
from sameweights.remote.local import LocalTransport
from sameweights.remote.loopback import LoopbackSshd
from sameweights.remote.ssh import SshTransport
from sameweights.remote.transport import Parcel, Transport

PAYLOAD = Path(__file__).resolve().parent.parent / "tests/workflow/ssh/payload.py"
MAX_COMMAND_MS = 30.0
MIN_PUSH_SHARE = 0.8
MAX_CELL_OVERHEAD = 0.05


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def run_quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def measure_command(endpoint: Endpoint) -> dict[str, float]:
    """Return median milliseconds on a warm connection: of a bare ssh, a first and a later call."""
    client = SshClient(endpoint)

    def ask(client: SshClient) -> None:
        client.call("call", "facts", line=b"{}\n")

    ask(client)
    ssh = [*client._base(), "true"]
    actions: dict[str, Callable[[], object]] = {
        "ssh HOST true": lambda: subprocess.run(ssh, check=True),
        "agent, first call": lambda: ask(SshClient(endpoint)),
        "agent, later calls": lambda: ask(client),
    }
    found = {
        name: 1e3 * statistics.median(seconds(action) for _ in range(30))
        for name, action in actions.items()
    }
    client.close()
    return found


def measure_push(
    folder: Path, sshd: LoopbackSshd, transport: SshTransport, megabytes: int
) -> dict[str, float]:
    """Return median seconds of three rounds by tool; random bytes, so that nothing compresses."""
    config = f"ssh -F {sshd.ssh_config} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    copy = folder / "copy"
    tools: dict[str, list[str]] = {
        "rsync": ["rsync", "--whole-file", "-e", config, "SOURCE", f"loopback:{copy}"],
        "scp": ["scp", "-q", *config.split()[1:], "SOURCE", f"loopback:{copy}"],
    }
    times: dict[str, list[float]] = {"push": [], "push again": []}
    for n in range(3):
        source = folder / f"random-{n}" / "weights"
        source.parent.mkdir()
        with source.open("wb") as handle:
            for _ in range(megabytes):
                handle.write(os.urandom(1_000_000))
        for name, words in tools.items():
            if shutil.which(name):
                command = [str(source) if w == "SOURCE" else w for w in words]
                times.setdefault(name, []).append(seconds(partial(run_quietly, command)))
                copy.unlink()
        parcel = Parcel(source.parent, "random", {source.name: file_sha256(source)})
        for name in ("push", "push again"):
            times[name].append(seconds(partial(transport.push, parcel)))
        source.unlink()
        transport.clean(everything=True)
    return {name: statistics.median(found) for name, found in times.items()}


def measure_cell(
    folder: Path, local: Transport, remote: Transport, requests: int, request_ms: float
) -> tuple[float, float]:
    """Return seconds of one cell by the local and by the SSH transport."""
    path = folder / "requests.jsonl"
    write_jsonl(path, (Request("loglikelihood", [n], [1]).to_json() for n in range(requests)))
    model = folder / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"weights")
    spec = CellSpec(
        cell="m/box/torch/fp32/s0", model="m", device="box", backend="torch", precision="fp32",
        seed=0, replicate=0, adapter="torch", options={"item_s": request_ms / 1e3}, recipe={},
        env={}, threads=1, files={"model.safetensors": file_sha256(model / "model.safetensors")},
        requests_sha256=file_sha256(path),
    )  # fmt: skip
    cell = folder / "cell.json"
    cell.write_text(json.dumps(spec.to_json()))
    found = []
    for name, transport in (("local", local), ("remote", remote)):
        out = folder / name
        run = partial(run_on_device, transport, PAYLOAD, cell, path, model, out)
        found.append(seconds(run))
    same = [(folder / n / "responses.jsonl").read_bytes() for n in ("local", "remote")]
    assert same[0] == same[1] and same[0].count(b"\n") == requests
    return found[0], found[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--request-ms", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, LoopbackSshd(Path(name) / "sshd") as sshd:
        folder = Path(name)
        endpoint = Endpoint(
            "box", sshd.host, str(folder / "work"), folder / "pins" / "box", sys.executable,
            sshd.ssh_config,
        )  # fmt: skip
        pin_host_key(endpoint)
        transport = SshTransport(endpoint, sys.executable)
        commands = measure_command(endpoint)
        push = measure_push(folder, sshd, transport, options.megabytes)
        local_s, remote_s = measure_cell(
            folder, LocalTransport(folder / "local-work"), transport,
            options.requests, options.request_ms,
        )  # fmt: skip
        transport.client.close()
    share = min(push[tool] for tool in ("rsync", "scp") if tool in push) / push["push"]
    overhead = remote_s / local_s - 1
    for name, taken_ms in commands.items():
        print(f"{name:30} {taken_ms:6.1f} ms")
    for tool, taken_s in push.items():
        print(f"{options.megabytes} MB by {tool:22} {taken_s:6.2f} s")
    print(f"push, share of the best tool   {share:6.0%}")
    print(f"cell of {options.requests} requests  local {local_s:.2f} s, ssh {remote_s:.2f} s")
    print(f"overhead of the cell           {overhead:6.1%}")
    command_ms = commands["agent, later calls"]
    good = (command_ms <= MAX_COMMAND_MS, share >= MIN_PUSH_SHARE, overhead <= MAX_CELL_OVERHEAD)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
