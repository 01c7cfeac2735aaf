"""Whoever changes the runner decides whether it can change a number.

After a change: raise RUNNER_VERSION if any number can differ (all cells run again), leave it if
not; then record the decision with `python tests/unit/runner/test_version.py`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import runner
from runner.contract import RUNNER_VERSION

PACKAGE = Path(runner.__file__).parent
DECISION = Path(__file__).with_name("runner_version.json")


def measure() -> dict[str, str]:
    """Return the runner's version and the SHA-256 of its sources (names and bytes)."""
    sha = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        sha.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        sha.update(path.read_bytes() + b"\0")
    return {"runner_version": RUNNER_VERSION, "sources_sha256": sha.hexdigest()}


def test_a_change_of_the_runner_was_decided_upon() -> None:
    assert json.loads(DECISION.read_text()) == measure(), __doc__


if __name__ == "__main__":
    DECISION.write_text(json.dumps(measure(), indent=1) + "\n")
