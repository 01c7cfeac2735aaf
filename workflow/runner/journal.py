"""responses.jsonl: append only, one line a response, safe against being killed at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from runner.contract import (
    ContractError,
    Response,
    RunRecord,
    canonical_json,
    read_responses,
)

JOURNAL = "responses.jsonl"
RECORD = "run.json"
OWNER = "responses.identity"
"""Holds the identity of the cell that the journal belongs to."""

Log = Callable[[str], None]


class Journal:
    """The open journal of one cell; `done` maps request id to the status it already has."""

    def __init__(self, out: Path, identity: str, allowed: Collection[str], log: Log) -> None:
        """Open or create; raises ContractError for a corrupt line or a foreign request."""
        out.mkdir(parents=True, exist_ok=True)
        self.path = out / JOURNAL
        _set_stale_aside(out, identity, log)
        _cut_partial_line(self.path, log)
        responses = read_responses(self.path) if self.path.exists() else []
        for number, response in enumerate(responses, start=1):
            if response.request_id not in allowed:
                raise ContractError(
                    f"{self.path}: line {number}: request {response.request_id} "
                    "is not in the request file"
                )
        self.done = {response.request_id: response.status for response in responses}
        write_atomically(out / OWNER, identity.encode() + b"\n")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(self.path, flags, 0o644)

    def append(self, response: Response) -> None:
        """Write one line through to the operating system.

        Raises OSError (a full disk, say); then the file ends with its last whole line.
        """
        line = canonical_json(response.to_json()) + b"\n"
        start = os.fstat(self._descriptor).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, start)
            raise
        self.done[response.request_id] = response.status

    def close(self) -> None:
        """Bring everything to the disk and close; raises OSError when the disk refuses."""
        try:
            os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)


def write_record(out: Path, record: RunRecord) -> None:
    """Write run.json, last and atomically."""
    text = json.dumps(record.to_json(), indent=1, sort_keys=True, allow_nan=False)
    write_atomically(out / RECORD, text.encode() + b"\n")


def read_record(out: Path, identity: str) -> RunRecord | None:
    """Return the run's record if it has ended under this identity; raises ContractError."""
    path = out / RECORD
    if not path.exists():
        return None
    try:
        raw: Mapping[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise ContractError(f"{path}: not JSON: {error}") from error
    record = RunRecord.from_json(raw, str(path))
    return record if record.identity == identity else None


def write_atomically(path: Path, content: bytes) -> None:
    """Write through a temporary name, on the disk before it gets its own name."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    part.replace(path)


def _set_stale_aside(out: Path, identity: str, log: Log) -> None:
    """Rename what another identity left here: results of two cells are never mixed."""
    owner = out / OWNER
    found = owner.read_text().strip() if owner.exists() else "unknown"
    if found == identity:
        return
    for name in (JOURNAL, RECORD):
        path = out / name
        if path.exists():
            aside = path.with_name(f"{name}.stale-{found[:12]}")
            path.replace(aside)
            log(f"{path}: belongs to identity {found}, this cell is {identity}; moved to {aside}")


def _cut_partial_line(path: Path, log: Log) -> None:
    """Cut an unfinished last line off; its request is done again."""
    if not path.exists():
        return
    with path.open("rb+") as handle:
        size = handle.seek(0, os.SEEK_END)
        keep = _end_of_last_line(handle, size)
        if keep < size:
            handle.truncate(keep)
            log(f"{path}: cut off {size - keep} bytes of an unfinished last line at byte {keep}")


def _end_of_last_line(handle: Any, size: int) -> int:
    """Return the offset just after the last newline, searching backwards in blocks."""
    position = size
    while position:
        start = max(0, position - (1 << 16))
        handle.seek(start)
        newline: int = handle.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0
