"""The runner in a container behind sshd; docker is a stand-in, no image was run."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.contract import read_responses
from sameweights.errors import UserError
from sameweights.registry import Container
from sameweights.remote.local import LocalTransport
from sameweights.remote.probe import read_facts
from sameweights.remote.provision import provision_image

IMAGE = "registry.example/torch@sha256:" + "a" * 64
FAKE = Path(__file__).with_name("fake_docker.py")


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """Folder of the stand-in, its state and the log of its calls."""
    folder = tmp_path / "engine"
    folder.mkdir()
    program = folder / "docker"
    program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    program.chmod(0o755)
    return folder


@pytest.fixture
def boxed(device: Any, docker: Path) -> Any:
    """The transport of a device that has the image already."""
    (docker / "images").write_text(IMAGE)
    container = Container(image=IMAGE, engine=str(docker / "docker"))
    return device.transport(container=container, env={"A": "b c"})


def calls(docker: Path, command: str) -> list[list[str]]:
    lines = (docker / "calls").read_text().splitlines()
    return [words for words in map(json.loads, lines) if words[0] == command]


def test_a_run_in_a_container_equals_the_local_one(device: Any, boxed: Any, docker: Path) -> None:
    assert device.run(boxed).outcome == "complete"
    device.run(LocalTransport(device.folder / "local", sys.executable), out="local-out")
    names = ("responses.jsonl", "run.json")
    for name in names:
        found = (device.folder / "out" / name).read_bytes()
        assert found == (device.folder / "local-out" / name).read_bytes()
    (run,) = calls(docker, "run")
    assert "--env=A=b c" in run and IMAGE in run
    name = next(word.removeprefix("--name=") for word in run if word.startswith("--name="))
    assert calls(docker, "rm") == [["rm", "--force", name]] * 2


def test_a_container_that_outlives_its_client_is_removed(
    device: Any, boxed: Any, docker: Path, is_alive: Any
) -> None:
    device.write_cell(mode="hang")

    def kill_client() -> None:
        (group,) = [int(p.read_text()) for p in device.work.glob("jobs/*/pgid")]
        children = Path(f"/proc/{group}/task/{group}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)

    device.when(["hanging"], kill_client)
    record = device.run(boxed)
    assert record.outcome == "failed" and "ended with code 137" in record.reason
    assert not any(map(is_alive, device.starts()))
    assert not list(docker.glob("*.pid"))


def test_a_cancelled_run_stops_its_container(device: Any, boxed: Any, is_alive: Any) -> None:
    device.write_cell(mode="hang")
    record = device.run(device.transport(container=boxed.container, timeout_s=0.5))
    assert record.outcome == "failed" and "ended with code 124" in record.reason
    assert not any(map(is_alive, device.starts()))


def test_an_image_is_loaded_once_from_its_archive(
    device: Any, docker: Path, tmp_path: Path
) -> None:
    container = Container(image=IMAGE, engine=str(docker / "docker"))
    transport, log = device.transport(container=container), tmp_path / "log"
    with pytest.raises(
        UserError, match=r"'box': key 'container': image .* is not there; .*--image"
    ):
        provision_image(transport, None, log)
    archive = tmp_path / "image.tar"
    archive.write_text(IMAGE)
    provision_image(transport, archive, log)
    provision_image(transport, None, log)
    assert log.read_text() == f"{IMAGE} is up to date\n"
    assert len(calls(docker, "load")) == 1


def test_probes_of_the_python_look_into_the_container(boxed: Any, docker: Path) -> None:
    facts = read_facts(boxed, ["system", "python"])
    assert facts["python"]["output"].startswith("3.")
    (run,) = calls(docker, "run")
    assert not any(word.startswith("--name") for word in run)


def test_a_missing_image_is_a_failed_run_with_the_reason(
    device: Any, boxed: Any, docker: Path
) -> None:
    (docker / "images").write_text("other")
    record = device.run(boxed)
    assert record.outcome == "failed" and "Unable to find image" in record.reason
    assert not (device.folder / "out" / "responses.jsonl").read_bytes()
    assert read_responses(device.folder / "out" / "responses.jsonl") == []
