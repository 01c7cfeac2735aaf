"""Install a locked environment on a device; a second call finds it in place."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.contract import digest, file_sha256
from sameweights.errors import UserError
from sameweights.remote.container import inspect_words, require_archive
from sameweights.remote.ssh import SshTransport
from sameweights.remote.transport import Parcel, TransportError

INSTALLER = Path(__file__).with_name("install_env.py")


@dataclass(frozen=True)
class Environment:
    """What to install: a lock file, and a folder of wheels for a device without internet."""

    python: str
    requirements: Path
    wheels: Path | None = None
    system_site_packages: bool = False


def provision(transport: SshTransport, environment: Environment, log: Path) -> None:
    """Bring `environment.python` (`envs/NAME/bin/python`) to the state of its lock file.

    `transport` must run the device's system Python. Raises UserError for a `python` outside
    `envs/`, TransportError when the installation fails; what happened stands in `log`.
    """
    parts = PurePosixPath(environment.python).parts
    if len(parts) != 4 or parts[0] != "envs" or parts[2:] != ("bin", "python"):
        raise UserError(
            f"device {transport.device!r}: key 'python' is {environment.python!r};"
            " to provision it must be envs/NAME/bin/python"
        )
    if not environment.requirements.is_file():
        raise UserError(f"{environment.requirements}: no such requirements file")
    sha = file_sha256(environment.requirements)
    lock, installer = transport.push(
        Parcel(environment.requirements, f"requirements/{sha}.txt"),
        Parcel(INSTALLER, f"install_env-{file_sha256(INSTALLER)[:16]}.py"),
    )
    words = [f"envs/{parts[1]}", lock]
    if environment.system_site_packages:
        words.append("--system-site-packages")
    if environment.wheels is not None:
        words += ["--wheels", *transport.push(Parcel(environment.wheels, "wheels/set"))]
    # A job that ended well is not repeated, but the folder may be gone: ask each time.
    attempt = ["--attempt", secrets.token_hex(4)]
    code = transport.run([installer, *words[:2], digest(words), *words[2:], *attempt], log)
    if code != 0:
        raise TransportError(
            f"device {transport.device!r}: provision: ended with code {code}; see {log}"
        )


def provision_image(transport: SshTransport, archive: Path | None, log: Path) -> None:
    """Load the device's image from an archive, unless it is there.

    Raises UserError when it is needed and not given, TransportError when the archive holds
    another image or cannot be loaded.
    """
    container = transport.container
    assert container is not None
    if _has_image(transport):
        log.write_text(f"{container.image} is up to date\n", encoding="utf-8")
        return
    (target,) = transport.push(
        Parcel(require_archive(transport.device, container, archive), "image.tar")
    )
    # A job that ended well is not repeated, but the image may be gone: another job each time.
    attempt = {"SAMEWEIGHTS_ATTEMPT": secrets.token_hex(4)}
    loader = SshTransport(transport.client.endpoint, python=container.engine, env=attempt)
    code = loader.run(["load", "--input", target], log)
    if code != 0 or not _has_image(transport):
        raise TransportError(
            f"device {transport.device!r}: provision: {container.kind} load ended with code {code},"
            f" and {container.image} is not there; see {log}"
        )


def _has_image(transport: SshTransport) -> bool:
    assert transport.container is not None
    facts = transport.facts({"image": inspect_words(transport.container)})
    return bool(facts["image"]["exit_code"] == 0)
