"""The engine's command line, word by word, and entries that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from sameweights.errors import UserError
from sameweights.registry import Container, DeviceEntry, validate
from sameweights.remote.container import Place, container_words
from sameweights.remote.transport import TransportError

ID = "sha256:" + "0" * 64


def words(**entry: Any) -> list[str]:
    place = Place("/home/me/same weights", 1000, 100)
    return container_words(Container(**entry), "python3", {"X": "1 2"}, place, "n")


def test_docker_gets_the_work_folder_the_user_and_nothing_else() -> None:
    assert words(image=ID) == [
        "docker", "run", "--rm", "--init", "--pull=never", "--network=none", "--name=n",
        "--user=1000:100",
        "--mount=type=bind,source=/home/me/same weights,target=/home/me/same weights",
        "--workdir=/home/me/same weights", "--env=HOME=/tmp", "--env=X=1 2",
        "--entrypoint=python3", ID,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "gpu", "word"),
    [
        ("docker", "nvidia", "--gpus=all"),
        ("docker", "jetson", "--runtime=nvidia"),
        ("/usr/bin/podman", "nvidia", "--device=nvidia.com/gpu=all"),
        ("podman", "none", "--userns=keep-id"),
    ],
)
def test_each_engine_names_the_gpu_in_its_own_way(engine: str, gpu: str, word: str) -> None:
    found = words(image=ID, engine=engine, gpu=gpu)
    assert found[0] == engine and word in found and found[-1] == ID


@pytest.mark.parametrize(
    ("container", "key"),
    [
        ({"image": "torch:latest"}, "container.image"),
        ({"image": "--privileged@" + ID}, "container.image"),
        ({"image": ID, "engine": "rm"}, "container.engine"),
        ({"image": ID, "engine": "docker run"}, "container.engine"),
        ({"image": ID, "gpu": "all"}, "container.gpu"),
        ({"image": ID, "mount": "/"}, "container.mount"),
    ],
)
def test_an_entry_is_pinned_by_content_and_closed(container: dict[str, str], key: str) -> None:
    with pytest.raises(UserError, match=key):
        validate({"description": "d", "container": container}, DeviceEntry, "d.yaml")


def test_the_image_is_part_of_a_runs_environment() -> None:
    entry = validate(
        {"description": "d", "env": {"A": "b"}, "container": {"image": ID}}, DeviceEntry, "d.yaml"
    )
    assert entry.run_env == {"A": "b", "SAMEWEIGHTS_IMAGE": ID}


@pytest.mark.parametrize(
    ("folder", "user"), [("relative", "0"), ("/a,readonly", "0"), ("/a", "root"), ("", "")]
)
def test_a_device_that_answers_nonsense_is_refused(folder: str, user: str) -> None:
    facts = {n: {"output": t} for n, t in (("folder", folder), ("user", user), ("group", "0"))}
    with pytest.raises(TransportError, match="'box': container: it says"):
        Place.read("box", facts)
