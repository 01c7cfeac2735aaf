"""How runs ended: read run.json files, and forget failures so that they are tried again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from runner.contract import RunRecord


def list_outcomes(results: Path) -> Iterator[tuple[str, RunRecord]]:
    """Yield (run id, record) of every run that has ended, in order of path."""
    for path in sorted((results / "cells").rglob("run.json")):
        record = RunRecord.from_json(json.loads(path.read_bytes()), str(path))
        yield path.parent.relative_to(results / "cells").as_posix(), record


def forget_failed_runs(results: Path, runs: list[str]) -> list[str]:
    """Delete run.json of runs whose device or runner broke, so that they run again.

    A failure is no measurement: unlike a stopped cell it may be gone next time. So it is with an
    engine that was not built. Returns the runs' ids.
    """
    for path in sorted((results / "engines").rglob("engine.json")):
        if json.loads(path.read_bytes()).get("outcome") == "failed":
            path.unlink()
    forgotten = []
    for run in runs:
        path = results / "cells" / run / "run.json"
        if path.is_file() and json.loads(path.read_bytes()).get("outcome") == "failed":
            path.unlink()
            forgotten.append(run)
    return forgotten
