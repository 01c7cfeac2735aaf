"""The local transport: this machine as a device, running exactly what a remote one runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sameweights.remote.agent import find_facts
from sameweights.remote.interrupts import cancelling
from sameweights.remote.transport import Parcel

KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LD_LIBRARY_PATH")
"""All that a device process inherits: a stray OMP_NUM_THREADS must not change its numbers."""


class LocalTransport:
    """Runs the packed runner in a child process below a work folder on this machine."""

    def __init__(
        self, workdir: Path, python: str | None = None, expect: Mapping[str, str] | None = None
    ) -> None:
        self.device = workdir.name
        self.expect: Mapping[str, str] = expect or {}
        self.workdir = workdir.resolve()
        self.python = python or sys.executable
        self.workdir.mkdir(parents=True, exist_ok=True)

    def interpreter(self) -> list[str]:
        """Return the Python that runs the runner."""
        return [self.python]

    def push(self, *parcels: Parcel) -> list[str]:
        """Copy files (a folder stays where it is: it is on this disk already)."""
        return [self._copy(parcel.source, parcel.target) for parcel in parcels]

    def _copy(self, source: Path, target: str) -> str:
        if source.is_dir():
            return str(source.resolve())
        copy = self.workdir / target
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            part = copy.with_name(f"{copy.name}.{os.getpid()}.part")
            shutil.copyfile(source, part)
            part.replace(copy)
        return str(copy)

    def run(self, arguments: Sequence[str], log: Path) -> int:
        """Run to the end, output to `log`; a signal to the hub ends the child too."""
        environment = {k: os.environ[k] for k in KEPT_VARIABLES if k in os.environ}
        with log.open("ab") as output:
            child = subprocess.Popen(
                [self.python, *arguments],
                cwd=self.workdir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

            def kill() -> None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()

            with cancelling(kill):
                return child.wait()

    def fetch(self, source: str, target: Path) -> bool:
        """Copy one result file through a temporary name."""
        found = self.workdir / source
        if not found.is_file():
            return False
        part = target.with_name(target.name + ".part")
        shutil.copyfile(found, part)
        part.replace(target)
        return True

    def facts(self, probes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Run commands here, as the agent does on a remote device."""
        return find_facts(dict(probes))
