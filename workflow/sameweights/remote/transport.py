"""What a transport must do; a new way to reach devices is one new file beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sameweights.errors import UserError


class TransportError(UserError):
    """The device could not be reached or broke off; the message names the device and the step."""


@dataclass(frozen=True)
class Parcel:
    """A file or folder to be sent; `hashes` are a folder's known SHA-256 by relative path."""

    source: Path
    target: str
    hashes: Mapping[str, str] | None = None


class Transport(Protocol):
    """Moves files to a device by content hash, runs the packed runner there, fetches results.

    Remote paths are relative to the device's work folder and are made by the hub alone.
    `expect` maps a probe to the pattern that its output must show before a run.
    """

    device: str
    expect: Mapping[str, str]

    def interpreter(self) -> list[str]:
        """Return the words that start the device's Python, for probes."""
        ...

    def push(self, *parcels: Parcel) -> list[str]:
        """Make files and folders available on the device; return their paths there."""
        ...

    def run(self, arguments: Sequence[str], log: Path) -> int:
        """Run the device's Python with these arguments to its end; return the exit code."""
        ...

    def fetch(self, source: str, target: Path) -> bool:
        """Copy one file from the device; False where the device does not have it."""
        ...

    def facts(self, probes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Run commands on the device; {name: {"exit_code": int or null, "output": text}}."""
        ...
