"""Pinned host keys: one known_hosts file a device, written only by `sameweights pin`."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from sameweights.errors import UserError
from sameweights.remote.client import BASE_OPTIONS, Endpoint, ssh_words


def read_host_key(endpoint: Endpoint) -> str:
    """Ask the device for its host key, as a known_hosts line under the device's name.

    Goes through the same configuration and jump hosts as every other call, and logs in nowhere.
    Raises UserError when no key comes back.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "known_hosts"
        options = {
            **BASE_OPTIONS,
            "StrictHostKeyChecking": "accept-new",
            "HashKnownHosts": "no",
            "HostKeyAlias": endpoint.device,
            "UserKnownHostsFile": f'"{found}"',
            "PreferredAuthentications": "none",
            "ControlPath": "none",
        }
        done = subprocess.run(
            [*ssh_words(endpoint, options), "--", endpoint.host, "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            check=False,
        )
        if not found.is_file():
            reason = done.stderr.decode("utf-8", "replace").strip()
            raise UserError(f"device {endpoint.device!r}: pin: no host key came back: {reason}")
        return found.read_text(encoding="utf-8")


def pin_host_key(endpoint: Endpoint, replace_pinned: bool = False) -> str:
    """Store the device's host key; return its fingerprint.

    Raises UserError when another key is pinned already and `replace_pinned` is not set.
    """
    line = read_host_key(endpoint)
    pinned = endpoint.known_hosts
    if pinned.is_file() and pinned.read_text(encoding="utf-8") != line and not replace_pinned:
        raise UserError(
            f"device {endpoint.device!r}: it shows {fingerprint(line)}, pinned in {pinned} is"
            f" {fingerprint(pinned.read_text(encoding='utf-8'))}; a re-installed device has a new"
            " key, an intruder too: compare it on the device itself, then pin --replace"
        )
    pinned.parent.mkdir(parents=True, exist_ok=True)
    part = pinned.with_name(pinned.name + ".part")
    part.write_text(line, encoding="utf-8")
    part.replace(pinned)
    return fingerprint(line)


def fingerprint(known_hosts: str) -> str:
    """Return `SHA256:... (TYPE)` of a known_hosts line, as ssh-keygen prints it on the device."""
    done = subprocess.run(
        ["ssh-keygen", "-lf", "-"], input=known_hosts.encode(), capture_output=True, check=True
    )
    words = done.stdout.decode().split()
    return f"{words[1]} {words[-1]}"
