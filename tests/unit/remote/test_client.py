"""How words become a remote command, and what ssh is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sameweights.errors import UserError
from sameweights.registry import DeviceEntry, Registry, validate
from sameweights.remote.client import Endpoint, SshClient, quote
from sameweights.remote.connect import endpoint_of

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))))
SHOW = "import sys; sys.stdout.buffer.write('\\0'.join(sys.argv[1:]).encode())"


@given(words=WORDS.filter(bool))
@settings(max_examples=15, deadline=None)
def test_a_shell_gives_every_word_back_as_it_was(words: list[str]) -> None:
    command = quote(["python3", "-I", "-S", "-X", "utf8", "-c", SHOW, *words])
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode() == "\0".join(words)


def test_ssh_never_asks_and_takes_only_the_pinned_key(tmp_path: Path) -> None:
    endpoint = Endpoint("box", "me@host", "work", tmp_path / "a b" / "box")
    words = SshClient(endpoint)._base()
    assert words[0] == "ssh" and words[-2:] == ["--", "me@host"]
    for option in (
        "-oBatchMode=yes",
        "-oStrictHostKeyChecking=yes",
        "-oHostKeyAlias=box",
        f'-oUserKnownHostsFile="{tmp_path}/a b/box"',
        "-oGlobalKnownHostsFile=/dev/null",
        "-oForwardAgent=no",
    ):
        assert option in words


def test_control_paths_are_short_and_differ_by_device(tmp_path: Path) -> None:
    def path(device: str) -> str:
        words = SshClient(Endpoint(device, "host", "w", tmp_path / device))._base()
        (found,) = [w for w in words if w.startswith("-oControlPath=")]
        return found.removeprefix("-oControlPath=")

    assert path("a") != path("b")
    # %C becomes 40 digits, and ssh adds 17 characters while it makes the socket.
    assert len(path("a").replace("%C", "c" * 40)) + 17 < 104


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"transport": "local"}, "key 'transport' is 'local'"),
        ({"transport": "ssh"}, "keys 'host' and 'workdir' are needed"),
        ({"transport": "ssh", "host": "h", "workdir": "~/w"}, "key 'workdir' is '~/w'"),
    ],
)
def test_an_entry_that_is_not_for_ssh_says_why(entry: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        endpoint_of("d", validate({"description": "d", **entry}, DeviceEntry, "d.yaml"))


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "a b", "$(id)", ""])
def test_a_host_that_could_be_an_option_is_refused(host: str) -> None:
    with pytest.raises(UserError, match=r"d\.yaml: key 'host'"):
        validate({"description": "d", "transport": "ssh", "host": host}, DeviceEntry, "d.yaml")


def test_the_devices_of_the_registry_can_be_reached_and_provisioned(root: Path) -> None:
    entries = Registry(root / "config/devices", DeviceEntry).entries
    remote = {name: e for name, e in entries.items() if e.transport == "ssh"}
    assert set(remote) >= {"jetson-orin-nano", "mac-m-series", "cloud-gpu"}
    for name, entry in remote.items():
        assert endpoint_of(name, entry).known_hosts == Path("config/known_hosts") / name
        assert entry.requirements and (root / entry.requirements).is_file()
