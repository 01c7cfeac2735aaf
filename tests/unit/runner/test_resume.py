"""Killed, cut off or without disk space: nothing is lost and the end result is the same."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.contract import read_responses

if TYPE_CHECKING:
    from tests.unit.runner.conftest import CellOnDisk


def journal_without_times(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [json.dumps({**record, "elapsed_s": None}) for record in records]


def kill_after(child: subprocess.Popen[str], journal: Path, size: int) -> bool:
    """Kill -9 once the journal has `size` bytes; False if the child ended before."""
    while child.poll() is None:
        if journal.exists() and journal.stat().st_size >= size:
            child.send_signal(signal.SIGKILL)
            child.wait()
            return True
    return False


def test_killed_at_ten_random_moments_it_equals_an_unbroken_run(cell: CellOnDisk) -> None:
    slow = cell.change(options={"batch_size": 4, "batch_sleep_ms": 5})
    whole = cell.folder / "whole"
    assert slow.run(whole).returncode == 0
    total = (whole / "responses.jsonl").stat().st_size
    moments = sorted(random.Random(20).sample(range(1, total - 3000), 10))
    killed = 0
    for moment in moments:
        child = subprocess.Popen(slow.command(), stderr=subprocess.DEVNULL, text=True)
        killed += kill_after(child, slow.journal, moment)
    assert killed == 10
    assert not (slow.out / "run.json").exists()
    assert slow.run().returncode == 0
    expected = journal_without_times(whole / "responses.jsonl")
    assert journal_without_times(slow.journal) == expected
    assert slow.record()["counts"] == slow.record(whole)["counts"]


@pytest.mark.parametrize("cut", [1, 7, 200])
def test_a_truncated_last_line_is_cut_off_and_its_request_done_again(
    cell: CellOnDisk, cut: int
) -> None:
    cell.run()
    expected = journal_without_times(cell.journal)
    (cell.out / "run.json").unlink()
    with cell.journal.open("rb+") as handle:
        handle.truncate(cell.journal.stat().st_size - cut)
    done = cell.run()
    assert done.returncode == 0
    assert "unfinished last line" in done.stderr
    assert journal_without_times(cell.journal) == expected


def test_a_corrupt_line_in_the_middle_is_an_error_with_its_number(cell: CellOnDisk) -> None:
    cell.run()
    (cell.out / "run.json").unlink()
    lines = cell.journal.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6][:20] + b"\n"
    cell.journal.write_bytes(b"".join(lines))
    done = cell.run()
    assert done.returncode == 1
    assert f"{cell.journal}: line 7" in cell.record()["reason"]
    assert cell.journal.read_bytes() == b"".join(lines)


def test_a_response_to_a_foreign_request_is_an_error(cell: CellOnDisk) -> None:
    cell.run()
    (cell.out / "run.json").unlink()
    lines = cell.journal.read_text().splitlines(keepends=True)
    record = {**json.loads(lines[2]), "request_id": "f" * 64}
    lines[2] = json.dumps(record) + "\n"
    cell.journal.write_text("".join(lines))
    done = cell.run()
    assert done.returncode == 1
    assert "line 3" in cell.record()["reason"]


def test_a_full_disk_fails_clearly_and_resumes(cell: CellOnDisk) -> None:
    whole = cell.folder / "whole"
    assert cell.run(whole).returncode == 0

    def limit_file_size() -> None:
        # A write beyond the limit fails in the middle of a line, as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = cell.run(preexec_fn=limit_file_size)
    assert done.returncode == 1
    assert "File too large" in cell.record()["reason"]
    partial = read_responses(cell.journal)  # every line is whole
    assert 0 < len(partial) < len(cell.requests)
    assert cell.record()["outcome"] == "failed"

    assert cell.run().returncode == 0
    expected = journal_without_times(whole / "responses.jsonl")
    assert journal_without_times(cell.journal) == expected
