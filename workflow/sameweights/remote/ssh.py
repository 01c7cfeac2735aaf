"""The SSH transport: content-addressed push, detached jobs that outlive the link, checked fetch."""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from runner.contract import digest, file_sha256
from sameweights.registry import Container
from sameweights.remote.client import ConnectionLost, Endpoint, Session, SshClient
from sameweights.remote.container import PLACE_PROBES, Place, container_words, remove_words
from sameweights.remote.interrupts import cancelling
from sameweights.remote.transport import Parcel, TransportError

BLOCK_BYTES = 1 << 20
MAX_LOG_BYTES = 16 << 20
MAX_FETCH_BYTES = 16 << 30
FIRST_DELAYS_S = (1.0, 3.0)
"""Waits before giving up on a device that has not answered yet."""
DELAYS_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)
"""Waits before giving up on a device that has answered before; progress starts them anew."""
MAX_LOSSES = 3
"""A job that vanishes so often in one run (reboot, out of memory, logind) is given up."""

T = TypeVar("T")


class SshTransport:
    """One device over SSH; see agent.py for its other side.

    `env` is set for every job, `launcher` stands before the Python (caffeinate), `container` is
    the image in which the Python runs, `timeout_s` ends a job that hangs.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        python: str = "python3",
        env: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
        timeout_s: float | None = None,
        expect: Mapping[str, str] | None = None,
        delays_s: Sequence[float] = DELAYS_S,
        container: Container | None = None,
    ) -> None:
        self.client = SshClient(endpoint)
        self.device = endpoint.device
        self.python = python
        self.expect: Mapping[str, str] = expect or {}
        self._program = [*launcher, python]
        self.env = dict(env or {})
        self.container = container
        self._place: Place | None = None
        self.timeout_s = timeout_s
        self._delays_s = delays_s
        self._reached = False
        self.moved_bytes = 0
        """Bytes of files sent and of logs received so far; also the sign of progress."""

    def push(self, *parcels: Parcel) -> list[str]:
        """Send what the device does not have yet; return the paths there.

        A folder becomes `<target>-<digest>`, so that another version never disturbs a running
        job.
        """
        targets: list[str] = []
        files: dict[str, tuple[Path, str]] = {}
        for parcel in parcels:
            target, found = _unpack(parcel)
            targets.append(target)
            files |= found
        wanted = {name: [sha, path.stat().st_size] for name, (path, sha) in files.items()}
        paths = {sha: path for path, sha in files.values()}
        self._retry(lambda: self._put(wanted, paths, ", ".join(targets)))
        return targets

    def _put(self, wanted: Mapping[str, object], paths: Mapping[str, Path], target: str) -> None:
        with self.client.open(f"push {target}", "put") as session:
            session.send(json.dumps(wanted).encode() + b"\n")
            while (words := session.read_line()) != ["linked"]:
                if len(words) != 3 or words[1] not in paths or not words[2].isdigit():
                    raise TransportError(f"device {self.device!r}: push: it answered {words}")
                with paths[words[1]].open("rb") as handle:
                    handle.seek(int(words[2]))
                    while block := handle.read(BLOCK_BYTES):
                        session.send(block)
                        self.moved_bytes += len(block)

    def run(self, arguments: Sequence[str], log: Path) -> int:
        """Run to the end, re-attaching to the job after any loss; the log lands in `log`.

        The same arguments are the same job: one that runs is joined, one that ended with 0 is
        not repeated. A signal to the hub cancels it on the device.
        """
        job: dict[str, Any] = {
            "argv": [*self._program, *arguments],
            "env": self.env,
            "timeout_s": self.timeout_s,
            "max_log_bytes": MAX_LOG_BYTES,
        }
        if self.container:
            inside = f"sameweights-{digest([self.device, self.container.image, *arguments])[:16]}"
            job["argv"] = [*self.interpreter(inside), *arguments]
            job["env"] = {}
            # A container outlives a client that was killed: remove it before and after.
            job["around"] = remove_words(self.container, inside)
        name, attempt = digest(job)[:32], secrets.token_hex(8)
        line = json.dumps({**job, "attempt": attempt}).encode() + b"\n"
        with cancelling(lambda: self._cancel(name, attempt)):
            for _ in range(MAX_LOSSES):
                self._retry(lambda: self.client.call("start", "start", name, line=line))
                with log.open("wb") as output:
                    code = self._retry(lambda: self._follow(name, output))
                if code is not None:
                    return code
        raise TransportError(
            f"device {self.device!r}: run: the job vanished {MAX_LOSSES} times; was the device"
            " rebooted, out of memory, or does logind kill processes at logout (enable linger)?"
        )

    def interpreter(self, name: str | None = None) -> list[str]:
        """Return the words of the device's Python; `name` is for its container, if it has one."""
        if self.container is None:
            return [self.python]
        if self._place is None:
            self._place = Place.read(self.device, self.facts(PLACE_PROBES))
        words = container_words(self.container, self.python, self.env, self._place, name)
        return [*self._program[:-1], *words]

    def _follow(self, name: str, output: BinaryIO) -> int | None:
        """Copy the log as it grows; return the exit code, or None when the job was lost."""
        with self.client.open("follow", "follow", name, str(output.tell())) as session:
            while True:
                words = session.read_line()
                if words == ["lost"]:
                    return None
                if len(words) == 2 and words[0] == "end" and words[1].isdigit():
                    return int(words[1])
                if len(words) == 2 and words[0] == "log" and words[1].isdigit():
                    size = int(words[1])
                    if output.tell() + size > MAX_LOG_BYTES + BLOCK_BYTES:
                        raise TransportError(f"device {self.device!r}: follow: its log has no end")
                    output.write(session.read_exactly(size))
                    output.flush()
                    self.moved_bytes += size
                elif words != ["beat"]:
                    raise TransportError(f"device {self.device!r}: follow: it answered {words}")

    def _cancel(self, name: str, attempt: str) -> None:
        try:
            self._retry(lambda: self.client.call("cancel", "cancel", name, attempt))
        except TransportError as error:
            sys.stderr.write(f"warning: the job may still run: {error}\n")

    def fetch(self, source: str, target: Path) -> bool:
        """Copy one file; size and hash are checked before it takes its name."""
        return self._retry(lambda: self._get(source, target))

    def _get(self, source: str, target: Path) -> bool:
        with self.client.open(f"fetch {source}", "get", source) as session:
            words = session.read_line()
            if words == ["absent"]:
                return False
            if len(words) != 3 or words[0] != "file" or not words[1].isdigit():
                raise TransportError(f"device {self.device!r}: fetch: it answered {words}")
            size = int(words[1])
            if size > MAX_FETCH_BYTES:
                raise TransportError(
                    f"device {self.device!r}: fetch {source}: {size} bytes,"
                    f" at most {MAX_FETCH_BYTES} are taken"
                )
            part = target.with_name(target.name + ".part")
            found = _copy(session, size, part)
            if found != words[2]:
                part.unlink()
                raise TransportError(
                    f"device {self.device!r}: fetch {source}: SHA-256 is {found},"
                    f" the device sent {words[2]}"
                )
        part.replace(target)
        return True

    def facts(self, probes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Run fact-finding commands on the device: {name: {"exit_code", "output"}}."""
        line = json.dumps({name: list(argv) for name, argv in probes.items()}).encode() + b"\n"
        answer = self._retry(lambda: self.client.call("probe", "facts", line=line))
        try:
            found = json.loads(answer)
            return {name: dict(found[name]) for name in probes}
        except (ValueError, KeyError, TypeError) as error:
            raise TransportError(f"device {self.device!r}: probe: bad answer: {error}") from error

    def clean(self, everything: bool = False) -> None:
        """Remove results and finished jobs there, or everything that was ever sent or made."""
        words = ["all"] if everything else []
        self._retry(lambda: self.client.call("clean", "clean", *words))

    def _retry(self, action: Callable[[], T]) -> T:
        """Repeat an action while the link breaks; progress made in between starts over."""
        while True:
            before = self.moved_bytes
            for delay_s in (*(self._delays_s if self._reached else FIRST_DELAYS_S), None):
                try:
                    result = action()
                except ConnectionLost:
                    if self.moved_bytes != before:
                        self._reached = True
                        break
                    if delay_s is None:
                        raise
                    time.sleep(delay_s)
                else:
                    self._reached = True
                    return result


def _unpack(parcel: Parcel) -> tuple[str, dict[str, tuple[Path, str]]]:
    """Return a parcel's path on the device and its files there: {path: (source, SHA-256)}."""
    source, target, hashes = parcel.source, parcel.target, parcel.hashes
    if not source.is_dir():
        return target, {target: (source, file_sha256(source))}
    if hashes is None:
        found = sorted(p for p in source.rglob("*") if p.is_file())
        hashes = {p.relative_to(source).as_posix(): file_sha256(p) for p in found}
    target = f"{target}-{digest(dict(hashes))[:16]}"
    return target, {f"{target}/{path}": (source / path, sha) for path, sha in hashes.items()}


def _copy(session: Session, size: int, target: Path) -> str:
    """Write so many bytes of a session to a file; return their SHA-256."""
    sha = hashlib.sha256()
    with target.open("wb") as handle:
        while size:
            block = session.read_exactly(min(size, BLOCK_BYTES))
            handle.write(block)
            sha.update(block)
            size -= len(block)
    return sha.hexdigest()
