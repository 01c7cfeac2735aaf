"""Faults of the device itself, with the packed runner: full disk, wrong clock, old Python."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from runner.pack import build_pyz
from sameweights.remote.driver import run_on_device
from sameweights.remote.local import LocalTransport
from sameweights.remote.transport import Transport

sys.path.insert(0, str(Path(__file__).parent))
from tiny import without_times, write_cell

SKEWED_CLOCK = Path(__file__).with_name("skewed_clock.c")


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    """A cell of twenty requests for the runner's model-free backend."""
    model = tmp_path / "table"
    model.mkdir()
    (model / "weights").write_bytes(b"table")
    build_pyz(tmp_path / "runner.pyz")
    options = {"batch_size": 1, "batch_sleep_ms": 50}
    return write_cell(tmp_path, model, "box", "fake", {}, **options)


def run(cell: Path, transport: Transport, out: str) -> Any:
    folder = cell.parent
    return run_on_device(
        transport, folder / "runner.pyz", cell, folder / "requests.jsonl", folder / "table",
        folder / out,
    )  # fmt: skip


def answers(cell: Path, transport: Transport, out: str) -> list[dict[str, Any]]:
    record = run(cell, transport, out)
    assert (record.outcome, record.reason) == ("complete", None)
    return without_times(cell.parent / out / "responses.jsonl")


def unbroken(cell: Path) -> list[dict[str, Any]]:
    return answers(cell, LocalTransport(cell.parent / "local", sys.executable), "local-out")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "sameweights-test", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("a small disk can only be mounted as root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_disk_that_fills_up_fails_the_run_and_loses_nothing(
    device: Any, cell: Path, small_disk: Path
) -> None:
    device.endpoint = replace(device.endpoint, workdir=str(small_disk / "work"))
    filler = small_disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as handle:
            try:
                while handle.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def measured() -> int:
        found = list(device.work.glob("cells/*/responses.jsonl"))
        return found[0].read_bytes().count(b"\n") if found else 0

    device.once(lambda: measured() >= 5, fill)
    record = run(cell, device.transport(), "out")
    assert record.outcome == "failed"
    assert "disk is full" in record.reason or "No space left" in record.reason
    kept = measured()
    assert 5 <= kept < 20
    filler.unlink()
    assert answers(cell, device.transport(), "out") == unbroken(cell)
    log = (cell.parent / "out" / "runner.log").read_text()
    assert f"resume: {kept} of 20 responses are there" in log


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_clock_that_jumps_an_hour_changes_no_answer(
    device: Any, cell: Path, seconds: int
) -> None:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a C compiler on Linux is needed for the false clock")
    library, clock = cell.parent / "clock.so", cell.parent / "clock"
    source = str(SKEWED_CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), source, "-ldl"], check=True)
    clock.write_text("0")
    false_clock = {"LD_PRELOAD": str(library), "SKEW_FILE": str(clock)}
    # The transport's own side lives in the false time, too.
    wrapper = cell.parent / "python"
    words = shlex.join(["env", *(f"{k}={v}" for k, v in false_clock.items()), sys.executable])
    wrapper.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    wrapper.chmod(0o755)
    device.endpoint = replace(device.endpoint, python=str(wrapper))
    device.once(
        lambda: any(device.work.glob("cells/*/responses.jsonl")),
        lambda: clock.write_text(str(seconds)),
    )
    assert answers(cell, device.transport(env=false_clock, timeout_s=60), "out") == unbroken(cell)
    record = json.loads((cell.parent / "out" / "run.json").read_bytes())
    began, ended = (datetime.fromisoformat(record[k]) for k in ("started_utc", "ended_utc"))
    # The jump was real: it shows in the record's two dates, and nowhere else.
    assert abs((ended - began).total_seconds() - seconds) < 600


def test_a_runner_under_python_3_8_fails_and_says_what_it_needs(device: Any, cell: Path) -> None:
    candidates = [shutil.which("python3.8"), *Path.home().glob(".pyenv/versions/3.8.*/bin/python")]
    run_it = {str(p): subprocess.run([p, "-c", ""], capture_output=True) for p in candidates if p}
    old = [path for path, done in run_it.items() if done.returncode == 0]
    if not old:
        pytest.skip("Python 3.8 is not installed")
    transport = device.transport()
    transport._program = [old[0]]
    record = run(cell, transport, "out")
    assert record.outcome == "failed"
    assert "the runner needs Python 3.10 or newer" in record.reason and " is 3.8." in record.reason
