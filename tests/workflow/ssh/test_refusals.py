"""What must not work: unknown and changed keys, wrong users, hosts that are not ready."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sameweights.errors import UserError
from sameweights.remote import ssh
from sameweights.remote.hostkeys import pin_host_key, read_host_key
from sameweights.remote.loopback import SSHD, LoopbackSshd
from sameweights.remote.transport import TransportError

PROBE = {"system": ["uname"]}


@pytest.fixture
def own_sshd(tmp_path: Path) -> Iterator[LoopbackSshd]:
    if SSHD is None:
        pytest.skip("sshd is not installed")
    with LoopbackSshd(tmp_path / "own sshd") as server:
        yield server


@pytest.fixture
def own(device: Any, own_sshd: LoopbackSshd) -> Any:
    """A device behind a server of its own, whose key may change."""
    device.sshd = own_sshd
    device.endpoint = replace(device.endpoint, device="own", ssh_config=own_sshd.ssh_config)
    pin_host_key(device.endpoint, replace_pinned=True)
    return device


def test_an_unknown_key_is_refused_and_the_message_says_how_to_pin(device: Any) -> None:
    device.endpoint.known_hosts.unlink()
    device.endpoint = replace(device.endpoint, device="stranger")
    with pytest.raises(TransportError, match=r"'stranger': probe: .*sameweights pin stranger"):
        device.transport().facts(PROBE)
    assert not device.endpoint.known_hosts.exists()
    assert not device.work.exists()


def test_a_changed_key_is_refused_until_it_is_pinned_again(own: Any) -> None:
    assert own.transport().facts(PROBE)["system"]["exit_code"] == 0
    own.transport().client.close()
    own.sshd.stop()
    own.sshd.make_key("host_key")
    own.sshd.start()
    with pytest.raises(TransportError, match=r"'own': probe: its host key is not the pinned"):
        own.transport().facts(PROBE)
    with pytest.raises(UserError, match=r"'own': it shows SHA256:.*pin --replace"):
        pin_host_key(own.endpoint)
    fingerprint = pin_host_key(own.endpoint, replace_pinned=True)
    expected = subprocess.run(
        ["ssh-keygen", "-lf", own.sshd.folder / "host_key.pub"], capture_output=True, check=True
    )
    assert fingerprint.split()[0] in expected.stdout.decode()
    assert own.transport().facts(PROBE)["system"]["exit_code"] == 0


def test_a_second_device_on_one_host_needs_its_own_pin(device: Any) -> None:
    device.transport().facts(PROBE)
    device.endpoint = replace(
        device.endpoint, device="twin", known_hosts=device.folder / "known hosts" / "twin"
    )
    with pytest.raises(TransportError, match="sameweights pin twin"):
        device.transport().facts(PROBE)


def test_pinned_lines_carry_the_devices_name(device: Any) -> None:
    assert read_host_key(device.endpoint).startswith("box ssh-ed25519 ")


def test_a_wrong_user_is_a_failed_run_with_the_reason(own: Any) -> None:
    own.sshd.write_config("nosuchuser")
    record = own.run()
    assert record.outcome == "failed"
    assert "'own': probe" in record.reason and "login was refused" in record.reason


def test_no_python_is_a_failed_run_with_the_reason(own: Any) -> None:
    own.endpoint = replace(own.endpoint, python="/no/such/python")
    record = own.run()
    assert record.outcome == "failed"
    assert "'own': probe" in record.reason and "no Python '/no/such/python'" in record.reason


def test_a_device_that_is_off_is_a_failed_run_with_the_reason(
    own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "FIRST_DELAYS_S", (0.01, 0.01))
    own.transport().client.close()
    own.sshd.stop()
    record = own.run()
    assert record.outcome == "failed"
    assert "'own': probe" in record.reason and "Connection refused" in record.reason


def test_somebody_elses_folder_is_not_taken_as_work_folder(device: Any) -> None:
    device.work.mkdir()
    (device.work / "thesis.tex").write_text("precious")
    with pytest.raises(TransportError, match=r"not empty and was not made by sameweights"):
        device.transport().clean(everything=True)
    assert (device.work / "thesis.tex").read_text() == "precious"


def test_clean_is_refused_while_a_job_runs(device: Any) -> None:
    device.write_cell(mode="hang")
    hub = device.start_hub()
    device.await_log("hanging")
    with pytest.raises(TransportError, match="is running; cancel it first"):
        device.transport().clean()
    hub.terminate()
    hub.wait()


def runs(python: str) -> bool:
    path = shutil.which(python)
    return path is not None and subprocess.run([path, "-c", ""], check=False).returncode == 0


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_the_agent_runs_on_other_pythons(device: Any, tmp_path: Path, version: str) -> None:
    candidates = [f"python{version}", *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    found = [str(path) for path in candidates if runs(str(path))]
    if not found:
        pytest.skip(f"Python {version} is not installed")
    device.endpoint = replace(device.endpoint, python=found[0])
    assert device.run().outcome == "complete"
