"""What the exit code of a program on a device means, where it says more than the program's log."""

from __future__ import annotations

from pathlib import Path

from runner.contract import CellSpec
from sameweights.remote.agent import EXIT_DISK_FULL
from sameweights.remote.transport import TransportError

EXIT_NO_PROGRAM = 127
"""The exit code, as in a shell, when the device has no such Python."""

EXIT_LOCKED = 4
"""The runner's exit code when another run holds the device's lock."""


def explain_exit(code: int, spec: CellSpec, log: Path) -> None:
    """Raise TransportError for an exit code that is not the runner's own answer to its cell."""
    if code == EXIT_DISK_FULL:
        raise TransportError(f"{spec.device}: its disk is full; what was measured is kept there")
    if code == EXIT_LOCKED:
        raise TransportError(f"{spec.device}: its lock is held by another run; see {log}")
    if code == EXIT_NO_PROGRAM:
        raise TransportError(
            f"{spec.device}: its Python for this backend is not there; run"
            f" `sameweights provision {spec.device} --backend {spec.backend}`"
        )
