"""The packed runner from outside: exit codes, messages, and what is left on disk."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from runner.contract import read_responses

if TYPE_CHECKING:
    from tests.unit.runner.conftest import CellOnDisk


def test_a_cell_runs_to_its_end_on_the_standard_library_alone(cell: CellOnDisk) -> None:
    done = cell.run()  # -S: no site-packages
    assert done.returncode == 0, done.stderr
    responses = read_responses(cell.journal)
    assert {r.request_id for r in responses} == {r.request_id for r in cell.requests}
    record = cell.record()
    assert record["outcome"] == "complete"
    assert record["identity"] == cell.spec.identity
    assert record["counts"] == {"ok": len(cell.requests)}


def test_a_complete_cell_is_not_run_again(cell: CellOnDisk) -> None:
    cell.run()
    before = (cell.journal.stat().st_mtime_ns, cell.out.joinpath("run.json").stat().st_mtime_ns)
    again = cell.run()
    assert again.returncode == 0
    assert "nothing to do" in again.stderr
    after = (cell.journal.stat().st_mtime_ns, cell.out.joinpath("run.json").stat().st_mtime_ns)
    assert after == before


def test_a_complete_cell_whose_journal_was_edited_fails(cell: CellOnDisk) -> None:
    cell.run()
    cell.journal.write_bytes(cell.journal.read_bytes().replace(b'"ok"', b'"ok" ', 1))
    again = cell.run()
    assert again.returncode == 1
    assert "responses.jsonl" in again.stderr


def test_another_identity_moves_the_old_journal_aside(cell: CellOnDisk) -> None:
    cell.run()
    old = cell.journal.read_bytes()
    other = cell.change(options={"batch_size": 2})
    done = other.run()
    assert done.returncode == 0
    stale = cell.journal.with_name(f"responses.jsonl.stale-{cell.spec.identity[:12]}")
    assert stale.read_bytes() == old
    assert other.record()["identity"] == other.spec.identity
    assert len(read_responses(other.journal)) == len(cell.requests)


def test_a_held_lock_is_named_with_its_holder(cell: CellOnDisk) -> None:
    lock = cell.folder / "device.lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        json.dump({"pid": 4711, "cell": "other/cell", "since_utc": "2026-01-01"}, handle)
        handle.flush()
        done = cell.run()
    assert done.returncode == 4
    for part in ("4711", "other/cell", "2026-01-01"):
        assert part in done.stderr
    assert not cell.out.exists()
    assert cell.run().returncode == 0


def test_a_changed_model_file_stops_the_cell(cell: CellOnDisk) -> None:
    weights = cell.folder / "model" / "weights.bin"
    weights.write_bytes(b"changed")
    done = cell.run()
    assert done.returncode == 3
    reason = cell.record()["reason"]
    assert "weights.bin" in reason
    assert cell.spec.files["weights.bin"] in reason
    assert not cell.journal.exists()


def test_a_model_file_outside_the_folder_is_refused(cell: CellOnDisk) -> None:
    done = cell.change(files={"../requests.jsonl": "0" * 64}).run()
    assert done.returncode == 3
    assert "leaves the model folder" in done.stderr


def test_another_request_file_stops_the_cell(cell: CellOnDisk) -> None:
    with (cell.folder / "requests.jsonl").open("a") as handle:
        handle.write("\n")
    assert cell.run().returncode == 3
    assert "requests.jsonl" in cell.record()["reason"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {"batch_sise": 4}}, ["batch_sise", "did you mean 'batch_size'"]),
        ({"options": {"batch_size": "4"}}, ["batch_size", "type int"]),
        ({"options": {"batch_size": 0}}, ["batch_size", "at least 1"]),
        ({"options": {"fault": "nam"}}, ["did you mean 'nan'"]),
        ({"adapter": "torhc"}, ["did you mean 'torch'"]),
        ({"recipe": {"weights": "int3"}}, ["int3", "fp32"]),
        ({"runner_version": "0"}, ["runner_version"]),
    ],
)
def test_what_cannot_be_in_force_stops_the_cell(
    cell: CellOnDisk, changes: dict[str, object], words: list[str]
) -> None:
    done = cell.change(**changes).run()
    assert done.returncode == 3, done.stderr
    for word in words:
        assert word in cell.record()["reason"]


def test_packages_of_no_known_lock_fail_the_cell_with_what_to_do(cell: CellOnDisk) -> None:
    assert cell.change(requirements_sha256="0" * 64).run().returncode == 1
    record = cell.record()
    assert record["outcome"] == "failed"
    assert "made from the lock file none, the cell needs 000" in record["reason"]
    assert "sameweights provision" in record["reason"]
    image = {"SAMEWEIGHTS_IMAGE": "sha256:" + "1" * 64}
    assert cell.change(requirements_sha256="0" * 64, env=image).run().returncode == 0


@pytest.mark.parametrize(
    ("fault", "status", "word"),
    [("nan", "error", "non-finite"), ("raise", "error", "told to fail")],
)
def test_a_failed_batch_is_a_status_and_never_a_number(
    cell: CellOnDisk, fault: str, status: str, word: str
) -> None:
    done = cell.change(options={"batch_size": 4, "fault": fault}).run()
    assert done.returncode == 0
    scored = [r for r in read_responses(cell.journal) if r.token_ids is None]
    assert len(scored) >= 60
    for response in scored:
        assert response.status == status
        assert word in (response.error or "")
        assert response.loglikelihood is None


def test_a_hanging_batch_times_out(cell: CellOnDisk) -> None:
    few = {"options": {"batch_size": 130, "fault": "hang"}, "request_timeout_s": 0.05}
    done = cell.change(**few).run()
    assert done.returncode == 0
    assert cell.record()["counts"] == {"timeout": len(cell.requests)}


def test_cell_json_errors_name_the_file(cell: CellOnDisk) -> None:
    (cell.folder / "cell.json").write_text('{"cell": 1}')
    done = cell.run()
    assert done.returncode == 1
    assert "cell.json" in done.stderr
    assert "missing keys" in done.stderr


def test_probe_and_version(cell: CellOnDisk) -> None:
    command = [sys.executable, "-S", str(cell.pyz)]
    probe = subprocess.run([*command, "probe"], capture_output=True, text=True, check=True)
    facts = json.loads(probe.stdout)
    assert {"fake", "lmeval", "torch"} <= set(facts["adapters"])
    assert facts["cpus"] >= 1
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == facts["runner_version"]
