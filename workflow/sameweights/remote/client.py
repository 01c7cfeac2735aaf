"""OpenSSH as a subprocess: every option, every quoted word and every exit code is decided here."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from sameweights.errors import UserError
from sameweights.remote.transport import TransportError

AGENT = Path(__file__).with_name("agent.py").read_bytes()
LOADER = f"import sys; exec(compile(sys.stdin.buffer.read({len(AGENT)}), 'agent', 'exec'))"
EXIT_SSH = 255
EXIT_NO_PYTHON = 127
REFUSALS = {
    "host key verification failed": "its host key is not the pinned one, or none is pinned;"
    " if you trust it: sameweights pin {device}",
    "permission denied": "the login was refused (user, key or agent)",
    "bad configuration option": "the SSH configuration is broken",
}
"""Words of ssh that no further attempt can change, and what they mean."""


class ConnectionLost(TransportError):
    """The link broke or could not be made; the same call may work a moment later."""


@dataclass(frozen=True)
class Endpoint:
    """How to reach one device; `known_hosts` is the file with its pinned key.

    `host` may be an alias of the user's SSH configuration: user, port, key and jump host are
    best kept there.
    """

    device: str
    host: str
    workdir: str
    known_hosts: Path
    python: str = "python3"
    ssh_config: Path | None = None
    program: str = "ssh"


class SshClient:
    """Calls the agent on one device over one shared connection.

    A session whose command went well serves the next one: a Python starts only once.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[Session] = []

    @contextmanager
    def open(self, step: str, *words: str) -> Iterator[Session]:
        """Give one agent command to a session; the block talks to it to its end."""
        session = self._idle.pop() if self._idle else self._start(step)
        session.step = step
        try:
            session.send(json.dumps(words).encode() + b"\n")
            yield session
            session.finish()
        except BaseException:
            session.kill()
            raise
        self._idle.append(session)

    def call(self, step: str, *words: str, line: bytes = b"") -> bytes:
        """Run one agent command that answers with one line; return the line."""
        with self.open(step, *words) as session:
            session.send(line)
            return session.read_answer()

    def close(self) -> None:
        """End the idle sessions and the shared connection."""
        while self._idle:
            self._idle.pop().kill()
        subprocess.run(
            [*self._base()[:-2], "-O", "exit", "--", self.endpoint.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            check=False,
        )

    def _start(self, step: str) -> Session:
        python = [self.endpoint.python, "-I", "-S", "-c", LOADER, self.endpoint.workdir]
        return Session(self.endpoint, [*self._base(), quote(python)], step)

    def _base(self) -> list[str]:
        endpoint = self.endpoint
        options = {
            **BASE_OPTIONS,
            "StrictHostKeyChecking": "yes",
            "HostKeyAlias": endpoint.device,
            "UserKnownHostsFile": f'"{endpoint.known_hosts.resolve()}"',
            "ControlMaster": "auto",
            "ControlPersist": "60",
            "ControlPath": str(_control_path(endpoint)),
        }
        return [*ssh_words(endpoint, options), "--", endpoint.host]


MAX_ANSWER_BYTES = 64 << 20

BASE_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "GlobalKnownHostsFile": "/dev/null",
    "UpdateHostKeys": "no",
    "CheckHostIP": "no",
    "ForwardAgent": "no",
    "ClearAllForwardings": "yes",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "PermitLocalCommand": "no",
    "LogLevel": "ERROR",
}
"""Nothing that could ask, hang for ever, or hand the device more than a command."""


def ssh_words(endpoint: Endpoint, options: dict[str, str]) -> list[str]:
    """Return the local ssh command up to the host."""
    config = ["-F", str(endpoint.ssh_config)] if endpoint.ssh_config else []
    return [endpoint.program, *config, *(f"-o{key}={value}" for key, value in options.items())]


def quote(words: Sequence[str]) -> str:
    """Spell a remote command line; the only place where words become shell text."""
    return "exec " + " ".join(map(shlex.quote, words))


class Session:
    """A running agent: `send` to it, read from it; any error ends it."""

    def __init__(self, endpoint: Endpoint, command: list[str], step: str) -> None:
        self.endpoint = endpoint
        self.step = step
        """What it does at the moment, for messages."""
        # A file and no pipe: a connection master that lives on must not hold us up.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the session
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pipesize=1 << 20,  # the usual 64 KiB cost a push a fifth of its speed
                # Ctrl-C must not end the client that carries the cancel.
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"{endpoint.program}: {error}; OpenSSH is needed") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout
        self.send(AGENT)

    def send(self, data: bytes | memoryview) -> None:
        """Write to the agent; raises what its end means when it has gone."""
        try:
            self._input.write(data)
            self._input.flush()
        except BrokenPipeError:
            self._explain()

    def read_line(self) -> list[str]:
        """Read one line of the agent's as words; its end without one raises ConnectionLost."""
        return self.read_answer(4096).decode("utf-8", "replace").split()

    def read_answer(self, limit: int = MAX_ANSWER_BYTES) -> bytes:
        """Read one line of at most so many bytes; its end without one raises ConnectionLost."""
        line = self._output.readline(limit)
        if len(line) == limit and not line.endswith(b"\n"):
            raise TransportError(
                f"device {self.endpoint.device!r}: {self.step}: a line of over {limit} bytes"
            )
        if not line.endswith(b"\n"):
            self._explain()
        return line

    def read_exactly(self, size: int) -> bytes:
        """Read so many bytes of the agent's; fewer raise ConnectionLost."""
        data = self._output.read(size)
        if len(data) != size:
            self._explain()
        return data

    def finish(self) -> None:
        """Read the agent's word that the command went well."""
        if (words := self.read_line()) != ["ok"]:
            raise TransportError(
                f"device {self.endpoint.device!r}: {self.step}: it answered {words}, not ok"
            )

    def kill(self) -> None:
        """End the session, whatever it is doing; the agent sees its input close."""
        if not hasattr(self, "_process"):
            return  # there is no ssh on this machine
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._input, self._output, self._errors):
            with suppress(BrokenPipeError):
                stream.close()

    __del__ = kill

    def _explain(self) -> NoReturn:
        """Raise what the command's end means; always raises."""
        with suppress(BrokenPipeError):
            self._input.close()
        code = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read(1 << 16).decode("utf-8", "replace").strip()
        where = f"device {self.endpoint.device!r}: {self.step}"
        if code == EXIT_SSH:
            for words, meaning in REFUSALS.items():
                if words in text.lower():
                    reason = meaning.format(device=self.endpoint.device)
                    raise TransportError(f"{where}: {reason} ({text.splitlines()[-1]})")
        elif code == EXIT_NO_PYTHON:
            raise TransportError(f"{where}: no Python {self.endpoint.python!r} there ({text})")
        elif code > 1:
            last = text.splitlines()[-1] if text else f"exit code {code}"
            raise TransportError(f"{where}: {last}")
        raise ConnectionLost(f"{where}: {text or 'the connection was lost'}")


def _control_path(endpoint: Endpoint) -> Path:
    """Return a short socket path of our own (the limit is 104 bytes on macOS).

    Named by device and pinned file: another device on the same host has another key to check.
    """
    folder = Path("/tmp") / f"sameweights-{os.getuid()}"  # noqa: S108 - owner and mode checked
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or folder.is_symlink():
        raise UserError(f"{folder}: must be a folder of yours with mode 700")
    key = f"{endpoint.device}\0{endpoint.known_hosts.resolve()}"
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:8]}-%C"
