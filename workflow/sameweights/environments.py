"""A backend's own Python environment on the hub: for its converters and for local devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from runner.contract import file_sha256
from sameweights.errors import UserError

INSTALLER = Path(__file__).parent / "remote" / "install_env.py"


def make_environment(requirements: Path, marker: Path, log: Path) -> None:
    """Install `requirements` into the folder `marker` is named after (`NAME.installed`).

    The same installer runs on devices. Raises UserError when the installation fails.
    """
    folder = marker.with_suffix("")
    command = [sys.executable, str(INSTALLER), str(folder), str(requirements)]
    with log.open("wb") as output:
        done = subprocess.run(
            [*command, file_sha256(requirements)], stdout=output, stderr=output, check=False
        )
    if done.returncode != 0:
        raise UserError(f"{requirements}: not installed into {folder}; see {log}")


def environment_python(folder: Path) -> Path:
    """Return the environment's Python as an absolute path, its links kept (they make it one)."""
    return Path(os.path.abspath(folder / "bin" / "python"))  # noqa: PTH100 - resolve() would leave


LIST_VERSIONS = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
)


def installed_versions(python: str) -> dict[str, str]:
    """Return name -> version of every package that a Python sees; raises UserError."""
    done = subprocess.run([python, "-c", LIST_VERSIONS], capture_output=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{python}: {done.stderr.decode(errors='replace').strip()}")
    found: dict[str, str] = json.loads(done.stdout)
    return found
