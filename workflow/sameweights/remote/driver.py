"""Execute one run on its device: push, run, fetch, check. Knows no SSH and no Snakemake."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from runner.contract import (
    CellSpec,
    ContractError,
    RunRecord,
    file_sha256,
    read_responses,
)
from sameweights.remote.exits import explain_exit
from sameweights.remote.mode import require_mode
from sameweights.remote.progress import Progress, reporting
from sameweights.remote.transport import Parcel, Transport, TransportError


def run_on_device(
    transport: Transport,
    runner_pyz: Path,
    cell_json: Path,
    requests: Path,
    model_dir: Path,
    out: Path,
    refusal: str | None = None,
    show: Callable[[Progress], object] = lambda _: None,
) -> RunRecord:
    """Run a cell and bring responses.jsonl and run.json into `out`; always leaves a run.json.

    `refusal` says why the run cannot be tried (its engine was not built): it fails with that.
    `show` is called now and then with how far the run is.
    Work on the device lies under the cell's identity: what was measured before is not measured
    again. A broken device or a result that breaks the contract gives outcome `failed`.
    """
    out.mkdir(parents=True, exist_ok=True)
    started = _now()
    spec = CellSpec.from_json(json.loads(cell_json.read_bytes()))
    log = out / "runner.log"
    try:
        if refusal is not None:
            raise TransportError(refusal)
        record = _push_run_fetch(
            transport, runner_pyz, spec, cell_json, requests, model_dir, out, log, show
        )
    except (TransportError, ContractError, OSError, ValueError) as error:
        record = RunRecord(
            cell=spec.cell,
            identity=spec.identity,
            outcome="failed",
            reason=f"{type(error).__name__}: {error}",
            counts={},
            responses_sha256=None,
            canary=None,
            environment={},
            timing={},
            started_utc=started,
            ended_utc=_now(),
        )
    part = out / "run.json.part"
    part.write_text(json.dumps(record.to_json(), indent=1) + "\n", encoding="utf-8")
    part.replace(out / "run.json")
    # An empty journal still is a file: downstream reads statuses, not absences.
    (out / "responses.jsonl").touch()
    return record


def _push_run_fetch(
    transport: Transport,
    runner_pyz: Path,
    spec: CellSpec,
    cell_json: Path,
    requests: Path,
    model_dir: Path,
    out: Path,
    log: Path,
    show: Callable[[Progress], object],
) -> RunRecord:
    folder = f"cells/{spec.identity}"
    for mark in require_mode(transport, out):
        sys.stderr.write(f"warning: device {spec.device!r} is marked: {mark}\n")
    pyz, remote_requests, model, cell = transport.push(
        Parcel(runner_pyz, f"runner-{file_sha256(runner_pyz)[:16]}.pyz"),
        Parcel(requests, f"requests/{spec.requests_sha256}.jsonl"),
        Parcel(model_dir, f"models/{spec.model}", spec.files),
        Parcel(cell_json, f"{folder}/cell.json"),
    )
    arguments = ["run", "--cell", cell, "--requests", remote_requests, "--model", model]
    with reporting(log, show):
        code = transport.run([pyz, *arguments, "--out", folder, "--lock", "device.lock"], log)
    explain_exit(code, spec, log)
    incoming = out / "run.json.fetched"
    if not transport.fetch(f"{folder}/run.json", incoming):
        raise TransportError(
            f"{spec.device}: the runner ended with code {code}: {last_line(log)}; see {log}"
        )
    record = RunRecord.from_json(json.loads(incoming.read_bytes()), str(incoming))
    incoming.unlink()
    if record.identity != spec.identity:
        raise ContractError(
            f"run.json: key 'identity' is {record.identity!r}, asked for {spec.identity!r}"
        )
    responses = out / "responses.jsonl"
    responses.unlink(missing_ok=True)
    transport.fetch(f"{folder}/responses.jsonl", responses)
    if record.outcome == "complete":
        _check_responses(record, responses)
    return record


def last_line(log: Path) -> str:
    """Return the last words of a log, at most 300 characters of printable text."""
    text = log.read_bytes()[-4096:].decode("utf-8", "replace") if log.is_file() else ""
    lines = [line for line in text.splitlines() if line.strip()] or ["it said nothing"]
    return "".join(c if c.isprintable() else " " for c in lines[-1][-300:])


def _check_responses(record: RunRecord, responses: Path) -> None:
    """Refuse responses that are not the ones the run record speaks of, or break the contract."""
    found = file_sha256(responses)
    if found != record.responses_sha256:
        raise ContractError(
            f"{responses}: SHA-256 {found}, run.json says {record.responses_sha256}"
        )
    read_responses(responses)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
