"""A throw-away SSH server on this machine: a device for trials, tests and benchmarks.

Own configuration, own keys, own home (nobody's .bashrc), a high port on 127.0.0.1, no system
service; needs `sshd` on disk.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey "{folder}/host_key"
AuthorizedKeysFile "{folder}/user_key.pub"
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
SetEnv "HOME={folder}"
MaxStartups 100
MaxSessions 100
"""

CLIENT = """\
Host loopback
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile "{folder}/user_key"
  IdentitiesOnly yes
  IdentityAgent none
"""


class LoopbackSshd:
    """Starts and stops one server; `ssh_config` has the host alias `loopback`."""

    host = "loopback"

    def __init__(self, folder: Path) -> None:
        """Make keys and configuration in `folder`; nothing runs yet."""
        if SSHD is None:
            raise FileNotFoundError("sshd is not installed")
        self.folder = folder
        self.ssh_config = folder / "ssh_config"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        folder.mkdir(parents=True, exist_ok=True)
        self.make_key("host_key")
        self.make_key("user_key")
        self.write_config(getpass.getuser())
        text = SERVER.format(port=self.port, folder=folder)
        (folder / "sshd_config").write_text(text, encoding="utf-8")
        self._server: subprocess.Popen[bytes] | None = None

    def make_key(self, name: str) -> None:
        """Make a key, in place of an earlier one of that name."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True
        )

    def write_config(self, user: str) -> None:
        """Write the client's configuration, to log in as `user`."""
        text = CLIENT.format(port=self.port, folder=self.folder, user=user)
        self.ssh_config.write_text(text, encoding="utf-8")

    def command(self) -> list[str]:
        """Return the server's command line; it must stay in the foreground."""
        return [str(SSHD), "-D", "-e", "-f", str(self.folder / "sshd_config")]

    def start(self) -> None:
        """Start the server and wait until it listens."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where it locks its unprivileged half in
        log = (self.folder / "sshd.log").open("ab")
        self._server = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self._server.poll() is not None:
                raise OSError((self.folder / "sshd.log").read_text(encoding="utf-8"))
            time.sleep(0.01)

    def cut(self) -> int:
        """Kill the server's side of every open connection; return how many there were."""
        assert self._server is not None
        cut = 0
        for pid in descendants(self._server.pid):
            if _name(pid).startswith("sshd"):
                with suppress(ProcessLookupError):  # it ended by itself
                    os.kill(pid, signal.SIGKILL)
                    cut += 1
        return cut

    def stop(self) -> None:
        """Kill the server and cut all connections."""
        if self._server is not None:
            self.cut()
            self._server.kill()
            self._server.wait()
            self._server = None

    def __enter__(self) -> LoopbackSshd:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below one, by `ps`."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in table.decode().splitlines()]
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        children = [child for child, its_parent in pairs if its_parent == parent]
        found += children
        todo += children
    return found


def _name(pid: int) -> str:
    done = subprocess.run(["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, check=False)
    return done.stdout.decode().strip()
