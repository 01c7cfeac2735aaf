"""Run a converter's tool in the environment of its backend."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from sameweights.errors import UserError

LAST_LINES = 3


def run_tool(
    command: Sequence[str], where: str, environment: Mapping[str, str] | None = None
) -> str:
    """Run a command offline and return what it printed.

    `environment`: variables beside this process's. Raises UserError with `where` and the last words
    of a failure.
    """
    done = subprocess.run(
        list(command),
        env={**os.environ, "HF_HUB_OFFLINE": "1", **(environment or {})},
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        raise UserError(f"{where}: ended with exit code {done.returncode}: {' / '.join(words)}")
    return done.stdout.decode(errors="replace")
