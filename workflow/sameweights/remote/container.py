"""A container as the place where the runner runs: the engine's command line, word by word.

Not run on hardware: written after the engines' manuals and tested with a stand-in for docker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sameweights.errors import UserError
from sameweights.registry import Container
from sameweights.remote.transport import TransportError

GPU_WORDS = {
    ("docker", "none"): [],
    ("docker", "nvidia"): ["--gpus=all"],
    ("docker", "jetson"): ["--runtime=nvidia"],
    ("podman", "none"): [],
    ("podman", "nvidia"): ["--device=nvidia.com/gpu=all"],
    ("podman", "jetson"): ["--device=nvidia.com/gpu=all"],
}

PLACE_PROBES = {"folder": ["pwd", "-P"], "user": ["id", "-u"], "group": ["id", "-g"]}
"""What only the device knows of itself, asked before a container is started."""


@dataclass(frozen=True)
class Place:
    """The work folder on the device, and the user to whom results must belong."""

    folder: str
    user: int
    group: int

    @classmethod
    def read(cls, device: str, facts: Mapping[str, Mapping[str, Any]]) -> Place:
        """Read the answers to PLACE_PROBES; raises TransportError for anything unexpected."""
        texts = {name: str(facts[name]["output"]).strip() for name in PLACE_PROBES}
        folder = PurePosixPath(texts["folder"])
        # A comma would begin another option of the mount.
        good = folder.is_absolute() and not set(texts["folder"]) & set(',"\n')
        if not (good and texts["user"].isdigit() and texts["group"].isdigit()):
            raise TransportError(f"device {device!r}: container: it says it is at {texts}")
        return cls(str(folder), int(texts["user"]), int(texts["group"]))


def container_words(
    container: Container, python: str, env: Mapping[str, str], place: Place, name: str | None
) -> list[str]:
    """Return the words that stand before the Python's own arguments.

    The work folder has the same path inside; there is no network; the image must be there
    already. `name` lets a container be removed that outlived its client.
    """
    kind = container.kind
    return [
        container.engine,
        "run",
        "--rm",
        "--init",
        "--pull=never",
        "--network=none",
        *([f"--name={name}"] if name else []),
        f"--user={place.user}:{place.group}",
        *(["--userns=keep-id"] if kind == "podman" else []),
        f"--mount=type=bind,source={place.folder},target={place.folder}",
        f"--workdir={place.folder}",
        "--env=HOME=/tmp",
        *(f"--env={key}={value}" for key, value in sorted(env.items())),
        *GPU_WORDS[kind, container.gpu],
        f"--entrypoint={python}",
        container.image,
    ]


def remove_words(container: Container, name: str) -> list[str]:
    """Return the command that removes a container, whatever it is doing."""
    return [container.engine, "rm", "--force", name]


def inspect_words(container: Container) -> list[str]:
    """Return the command that fails where the image is not on the device."""
    return [container.engine, "image", "inspect", "--format={{.Id}}", container.image]


def require_archive(device: str, container: Container, archive: Path | None) -> Path:
    """Return the image's archive; raises UserError that says how to make one."""
    if archive is None or not archive.is_file():
        raise UserError(
            f"device {device!r}: key 'container': image {container.image} is not there; give it"
            f" with --image FILE, made by `{container.kind} save --output FILE IMAGE`"
        )
    return archive
