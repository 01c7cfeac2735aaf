"""Facts, modes and environments of a device behind a real sshd."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from sameweights.errors import UserError
from sameweights.remote.cli import app
from sameweights.remote.probe import PROBES, RUN_PROBES, read_facts
from sameweights.remote.provision import Environment, provision
from sameweights.remote.transport import TransportError

METADATA = "Metadata-Version: 2.1\nName: tiny-pkg\nVersion: {}\n"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make_wheel(folder: Path, version: str) -> None:
    """Write a wheel with nothing but metadata and one module."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"tiny_pkg-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tiny_pkg-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_pkg.py", f"version = {version!r}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-pkg\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def installed(device: Any, tmp_path: Path) -> str:
    transport = device.transport()
    transport._program = ["envs/e/bin/python"]
    assert transport.run(["-c", "import tiny_pkg; print(tiny_pkg.version)"], tmp_path / "v") == 0
    return (tmp_path / "v").read_text().strip()


def test_an_environment_is_installed_offline_once_and_again_for_another_lock(
    device: Any, tmp_path: Path
) -> None:
    make_wheel(tmp_path / "wheels", "1.0")
    lock, log = tmp_path / "lock.txt", tmp_path / "log"
    lock.write_text("tiny-pkg==1.0\n")
    wanted = Environment("envs/e/bin/python", lock, tmp_path / "wheels")
    # What a PYTHONPATH shows there does not count as installed.
    seen = tmp_path / "seen"
    with zipfile.ZipFile(next((tmp_path / "wheels").iterdir())) as wheel:
        wheel.extractall(seen)
    provision(device.transport(env={"PYTHONPATH": str(seen)}), wanted, log)
    assert log.read_text().endswith("envs/e installed\n")
    assert installed(device, tmp_path) == "1.0"
    provision(device.transport(), wanted, log)
    assert log.read_text() == "envs/e is up to date\n"
    lock.write_text("tiny-pkg==2.0\n")
    with pytest.raises(TransportError, match=r"'box': provision: ended with code 1"):
        provision(device.transport(), wanted, log)
    assert "tiny-pkg==2.0" in log.read_text()


def test_an_environment_outside_envs_is_refused(device: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"key 'python' is '/usr/bin/python3'"):
        provision(device.transport(), Environment("/usr/bin/python3", tmp_path), tmp_path / "log")


def test_every_probe_answers_for_itself(device: Any) -> None:
    facts = read_facts(device.transport())
    assert set(facts) == set(PROBES)
    assert facts["system"]["exit_code"] == 0
    assert facts["python"]["output"].startswith(sys.version.split()[0])
    assert facts["matmul_fp32"]["output"] == "exact\n"
    assert facts["sw_vers"] == {"exit_code": None, "output": "missing"}


def test_a_device_out_of_its_mode_is_refused_before_anything_runs(device: Any) -> None:
    record = device.run(device.transport(expect={"system": "^Plan9", "python": r"^3\."}))
    assert record.outcome == "failed"
    assert "not in its mode: probe 'system' should show '^Plan9', found 'Linux" in record.reason
    assert device.starts() == []
    kept = json.loads((device.folder / "out" / "device.json").read_text())
    assert set(kept["facts"]) == {*RUN_PROBES, "python"}


def test_a_doubtful_device_is_marked_and_its_facts_lie_with_the_run(
    device: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = "    Clocks Event Reasons\\n        HW Thermal Slowdown : Active\\n"
    monkeypatch.setitem(PROBES, "nvidia_throttle", ["printf", hot])
    assert device.run().outcome == "complete"
    assert "device 'box' is marked: throttled: HW Thermal Slowdown" in capsys.readouterr().err
    kept = json.loads((device.folder / "out" / "device.json").read_text())
    assert kept["marks"] == ["throttled: HW Thermal Slowdown"]
    assert kept["facts"]["system"]["output"].startswith("Linux")


def test_the_commands_work_on_a_registry(device: Any, tmp_path: Path) -> None:
    devices = tmp_path / "devices"
    devices.mkdir()
    entry = {
        "description": "loopback", "transport": "ssh", "host": "loopback",
        "ssh_config": str(device.sshd.ssh_config), "workdir": str(device.work),
        "system_python": sys.executable, "python": sys.executable,
    }  # fmt: skip
    (devices / "box.yaml").write_text(yaml.safe_dump(entry))
    words = ["--devices", str(devices), "--known-hosts", str(tmp_path / "pins")]
    work = ["--work", str(tmp_path / "w")]

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(app, [*arguments, *words])

    unpinned = call("devices", *work)
    assert unpinned.exit_code == 1 and "sameweights pin box" in unpinned.output
    assert "SHA256:" in call("pin", "box").output
    listed = call("devices", *work)
    assert listed.exit_code == 0 and listed.output.startswith("box  ssh    ok      Python 3.")
    probed = json.loads(call("probe", "box", *work).output)
    assert probed["facts"]["system"]["exit_code"] == 0
    assert probed["summary"]["matmul_exact"] is True and probed["marks"] == []
    assert call("clean", "box", "--all").output == "box: everything removed\n"
    assert isinstance(call("probe", "bix").exception, UserError)
