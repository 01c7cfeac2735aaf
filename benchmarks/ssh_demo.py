"""Run a matrix twice, all local and with two devices behind a real sshd, and compare bit for bit.

Usage: python benchmarks/ssh_demo.py FOLDER [--limit 4] [--config config/smoke.yaml]
Each side is a copy of the repository's tracked files below FOLDER, run by the literal command
`snakemake --profile local`. In the copy `ssh` the remote devices' entries get `transport: ssh` and
a loopback server; nothing else differs. Every response must
be equal but for `elapsed_s`, the hashes of the logits included, and so must cell.json with the
identity. Exits 1 when one differs. The whole demo takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from sameweights.registry import DeviceEntry, read_entry
from sameweights.remote.connect import endpoint_of
from sameweights.remote.hostkeys import pin_host_key
from sameweights.remote.loopback import LoopbackSshd

ROOT = Path(__file__).resolve().parent.parent


def copy_repository(target: Path) -> None:
    """Copy the tracked files as they are in the working tree."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def make_remote(repository: Path, device: str, sshd: LoopbackSshd) -> None:
    """Turn a local device's entry into one behind the server, and pin its key."""
    path = repository / f"config/devices/{device}.yaml"
    entry = yaml.safe_load(path.read_text())
    entry |= {
        "transport": "ssh",
        "host": sshd.host,
        "ssh_config": str(sshd.ssh_config),
        "workdir": str(repository.parent / "remote" / device),
        "system_python": sys.executable,
        "python": sys.executable,
    }
    path.write_text(yaml.safe_dump(entry))
    known_hosts = repository / "config/known_hosts"
    pin_host_key(endpoint_of(device, read_entry(path, DeviceEntry), known_hosts))


def run_matrix(repository: Path, config: str, limit: int | None) -> Path:
    """Run the matrix there, with the copy's own code; return its results folder."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(repository / "workflow"),
    }
    command = ["snakemake", "--profile", "local", "--configfile", config]
    if limit is not None:
        command += ["--config", f"limit={limit}"]
    subprocess.run(command, cwd=repository, env=environment, check=True)
    return repository / yaml.safe_load((repository / config).read_text()).get("results", "results")


def read_run(folder: Path) -> dict[str, Any]:
    """Return what must not differ: the cell, and every response without its time."""
    lines = (folder / "responses.jsonl").read_text().splitlines()
    responses = [{**json.loads(line), "elapsed_s": None} for line in lines]
    return {
        "cell": json.loads((folder / "cell.json").read_bytes()),
        "outcome": json.loads((folder / "run.json").read_bytes())["outcome"],
        "responses": responses,
    }


def compare(local: Path, remote: Path) -> bool:
    """Print one line a run; tell whether all are equal and there is at least one."""
    runs = sorted(p.parent.relative_to(local) for p in local.glob("cells/**/run.json"))
    good = bool(runs)
    for run in runs:
        left, right = read_run(local / run), read_run(remote / run)
        hashes = sum(r["logits_sha256"] is not None for r in left["responses"])
        same = left == right
        good &= same
        print(
            f"{'equal ' if same else 'DIFFER'}  {run.relative_to('cells')}: {left['outcome']},"
            f" {len(left['responses'])} responses, {hashes} with a hash of the logits"
        )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--limit", type=int, help="items of each task; all of the config's if out")
    parser.add_argument("--remote", nargs="+", default=["cpu-avx2", "cpu-sse"])
    options = parser.parse_args()
    folder = options.folder.resolve()
    sides = {side: folder / side for side in ("local", "ssh")}
    for repository in sides.values():
        copy_repository(repository)
    with LoopbackSshd(folder / "sshd") as sshd:
        for device in options.remote:
            make_remote(sides["ssh"], device, sshd)
        results = {
            side: run_matrix(path, options.config, options.limit) for side, path in sides.items()
        }
    good = compare(results["local"], results["ssh"])
    print("all runs are equal" if good else "runs differ")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
