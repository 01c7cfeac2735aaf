"""One run of a cell from its checks to run.json."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from runner.backends import Backend, load_adapter
from runner.canary import CanaryFailure, check_canary
from runner.checks import CheckFailure, check_environment, check_files, check_runner, read_requests
from runner.contract import (
    KINDS,
    CellSpec,
    ContractError,
    Outcome,
    Request,
    RunRecord,
    file_sha256,
)
from runner.executor import execute
from runner.host import host_facts, set_environment
from runner.journal import JOURNAL, Journal, Log, read_record, write_record
from runner.options import OptionError
from runner.sensors import Sensors

REFUSALS = (CanaryFailure, CheckFailure, OptionError)
"""What stops a cell before it measures anything; all else is a failure."""


def run_cell(spec: CellSpec, requests: Path, model: Path, out: Path, log: Log) -> Outcome:
    """Run, or resume, a cell; run.json tells the outcome unless the disk refuses it (OSError)."""
    if _is_complete(spec, out, log):
        return "complete"
    session = Session(spec, out, log)
    outcome: Outcome
    reason: str | None = None
    try:
        session.run(requests, model)
        outcome = "complete"
    except REFUSALS as error:
        outcome, reason = "stopped", str(error)
        if isinstance(error, CanaryFailure):
            session.canary = error.report
    except Exception as error:
        # The boundary of a run: whatever broke becomes its recorded reason and exit code.
        log(traceback.format_exc())
        outcome, reason = "failed", f"{type(error).__name__}: {error}"
    log(f"{spec.cell}: {outcome}" + (f": {reason}" if reason else ""))
    write_record(out, session.record(outcome, reason))
    return outcome


class Session:
    """The state that becomes run.json."""

    def __init__(self, spec: CellSpec, out: Path, log: Log) -> None:
        self.spec = spec
        self.out = out
        self.log = log
        self.started_utc = _now()
        self.canary: dict[str, Any] | None = None
        self.counts: dict[str, int] = {}
        self.environment: dict[str, Any] = {}
        self.timing: dict[str, float] = {}
        self.sensors = Sensors()

    def run(self, requests_path: Path, model: Path) -> None:
        """Check, load, pass the canary, measure; raises what stops or breaks the run."""
        spec = self.spec
        self.out.mkdir(parents=True, exist_ok=True)
        check_runner(spec)
        check_environment(spec)
        requests = read_requests(requests_path, spec.requests_sha256)
        check_files(model, spec.files, self.log)
        journal = Journal(self.out, spec.identity, {r.request_id for r in requests}, self.log)
        try:
            backend = self._load(model, requests)
            self._pass_canary(backend, writes=any(r.kind == "generate" for r in requests))
            self.sensors.sample()
            started = time.monotonic()
            execute(backend, requests, journal, spec.request_timeout_s, self.sensors)
            self.timing["run_s"] = time.monotonic() - started
            self.timing["request_tokens"] = float(_count_tokens(requests))
            self.sensors.sample()
        finally:
            self.counts = dict(Counter(journal.done.values()))
            journal.close()

    def _load(self, model: Path, requests: list[Request]) -> Backend:
        started = time.monotonic()
        removed = set_environment(self.spec.env, self.spec.threads)
        if removed:
            self.log(f"environment: removed variables the cell does not name: {removed}")
        self.environment = {
            "host": host_facts(),
            "env": dict(self.spec.env),
            "removed_variables": removed,
        }
        adapter = load_adapter(self.spec.adapter)
        check_kinds(self.spec.adapter, getattr(adapter, "KINDS", KINDS), requests)
        backend = adapter(model, self.spec)
        self.environment["backend"] = backend.describe()
        self.timing["load_s"] = time.monotonic() - started
        return backend

    def _pass_canary(self, backend: Backend, writes: bool) -> None:
        if self.spec.canary is None:
            return
        started = time.monotonic()
        self.canary = check_canary(backend, self.spec.canary, self.spec.request_timeout_s, writes)
        self.timing["canary_s"] = time.monotonic() - started
        difference = self.canary["mean_abs_diff_nats"]
        if difference is None:
            self.log(f"canary: {self.canary['agree']} of {self.canary['sure']} sure tokens written")
        else:
            self.log(f"canary: {difference:.3g} nats per token from reference")

    def record(self, outcome: Outcome, reason: str | None) -> RunRecord:
        journal = self.out / JOURNAL
        return RunRecord(
            cell=self.spec.cell,
            identity=self.spec.identity,
            outcome=outcome,
            reason=reason,
            counts=self.counts,
            responses_sha256=file_sha256(journal) if journal.exists() else None,
            canary=self.canary,
            environment=self.environment,
            timing={**self.timing, **self.sensors.summary()},
            started_utc=self.started_utc,
            ended_utc=_now(),
        )


def check_kinds(adapter: str, known: tuple[str, ...], requests: list[Request]) -> None:
    """Raise CheckFailure for requests of a kind that the adapter cannot answer at all."""
    counts = Counter(r.kind for r in requests if r.kind not in known)
    if counts:
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        raise CheckFailure(
            f"adapter {adapter!r} answers {', '.join(known)} requests only; the cell has {found}: "
            "give it tasks of that kind"
        )


def _is_complete(spec: CellSpec, out: Path, log: Log) -> bool:
    """Whether this very cell has ended well here; raises ContractError if its journal changed."""
    record = read_record(out, spec.identity)
    if record is None or record.outcome != "complete":
        return False
    journal = out / JOURNAL
    found = file_sha256(journal) if journal.exists() else "no file"
    if found != record.responses_sha256:
        raise ContractError(f"{journal}: {found}, run.json says {record.responses_sha256}")
    log(f"{spec.cell}: complete already, nothing to do")
    return True


def _count_tokens(requests: list[Request]) -> int:
    return sum(len(r.prompt_ids) + len(r.continuation_ids) for r in requests)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
