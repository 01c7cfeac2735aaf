"""Choose the transport that a device's entry asks for."""

from __future__ import annotations

from pathlib import Path

from sameweights.environments import environment_python
from sameweights.errors import UserError
from sameweights.registry import DeviceEntry
from sameweights.remote.client import Endpoint
from sameweights.remote.local import LocalTransport
from sameweights.remote.ssh import SshTransport
from sameweights.remote.transport import Transport

KNOWN_HOSTS = Path("config/known_hosts")
"""Pinned host keys, one file a device; written by `sameweights pin`."""


def connect(
    name: str,
    device: DeviceEntry,
    local_workdir: Path,
    known_hosts: Path = KNOWN_HOSTS,
    environment: str | None = None,
) -> Transport:
    """Return the device's transport; nothing is contacted yet.

    `environment` names a backend's own environment: its Python runs instead of the device's.
    """
    if environment:
        device = in_environment(device, environment, local_workdir)
    if device.transport == "local":
        return LocalTransport(local_workdir / name, device.python, device.expect)
    return connect_ssh(name, device, known_hosts)


def in_environment(device: DeviceEntry, name: str, local_workdir: Path) -> DeviceEntry:
    """Return the device with the Python of `envs/<name>`; local devices share the hub's."""
    if device.container is not None:
        return device  # the image is the environment
    python = f"envs/{name}/bin/python"
    if device.transport == "local":
        python = str(environment_python(local_workdir.parent / "envs" / name))
    return device.model_copy(update={"python": python})


def connect_ssh(name: str, device: DeviceEntry, known_hosts: Path = KNOWN_HOSTS) -> SshTransport:
    """Return the SSH transport of a device; raises UserError when its entry is not for SSH."""
    return SshTransport(
        endpoint_of(name, device, known_hosts),
        python=device.python or device.system_python,
        env=device.run_env,
        launcher=device.launcher,
        container=device.container,
        timeout_s=device.run_timeout_s,
        expect=device.expect,
    )


def endpoint_of(name: str, device: DeviceEntry, known_hosts: Path = KNOWN_HOSTS) -> Endpoint:
    """Return where and how a device is reached; raises UserError for a missing key."""
    if device.transport != "ssh":
        raise UserError(f"device {name!r}: key 'transport' is {device.transport!r}; needed: 'ssh'")
    if device.host is None or device.workdir is None:
        raise UserError(f"device {name!r}: keys 'host' and 'workdir' are needed for SSH")
    if device.workdir.startswith("~"):
        raise UserError(
            f"device {name!r}: key 'workdir' is {device.workdir!r}; allowed: an absolute path,"
            " or one relative to the home folder without '~'"
        )
    return Endpoint(
        device=name,
        host=device.host,
        workdir=device.workdir,
        known_hosts=known_hosts / name,
        python=device.system_python,
        ssh_config=Path(device.ssh_config) if device.ssh_config else None,
    )
