"""Choose the transport that a device's entry asks for."""

from __future__ import annotations

from pathlib import Path

from sameweights.errors import UserError
from sameweights.registry import DeviceEntry
from sameweights.remote.local import LocalTransport
from sameweights.remote.transport import Transport


def connect(name: str, device: DeviceEntry, local_workdir: Path) -> Transport:
    """Return the device's transport; heavy or optional ones are imported only when chosen."""
    if device.transport == "local":
        return LocalTransport(local_workdir / name, device.python)
    raise UserError(f"device {name!r}: key 'transport' is {device.transport!r}; not built yet")
