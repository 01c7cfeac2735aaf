"""What is checked before anything is loaded: the model's files and the requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from runner.contract import (
    RUNNER_VERSION,
    CellSpec,
    ContractError,
    Request,
    file_sha256,
    read_jsonl,
)
from runner.journal import Log


class CheckFailure(Exception):
    """An input is not the one the cell names: nothing may be measured."""


class OutdatedEnvironment(Exception):
    """The packages here are not the locked ones; a new installation mends it."""


IMAGE = "SAMEWEIGHTS_IMAGE"
"""Set where a container image is the environment."""


def read_spec(path: Path) -> CellSpec:
    """Read cell.json; raises ContractError that names the file."""
    try:
        return CellSpec.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ContractError(f"{path}: {error}") from error


def check_runner(spec: CellSpec) -> None:
    """Raise CheckFailure for a cell that was made for another runner."""
    if spec.runner_version != RUNNER_VERSION:
        raise CheckFailure(
            f"cell.json: key 'runner_version' is {spec.runner_version!r}, "
            f"this runner is {RUNNER_VERSION!r}"
        )


def check_environment(spec: CellSpec) -> None:
    """Raise OutdatedEnvironment unless this Python's packages come from the cell's lock file.

    The installer's marker beside the environment names the lock; an image has none.
    """
    if spec.requirements_sha256 is None or IMAGE in spec.env:
        return
    # Not sys.prefix, which forgets the environment where `site` was not loaded.
    marker = Path(f"{Path(sys.executable).parent.parent}.installed")
    lines = marker.read_text(encoding="utf-8").splitlines() if marker.is_file() else []
    found = lines[1] if len(lines) == 2 else "none"
    if found != spec.requirements_sha256:
        raise OutdatedEnvironment(
            f"{marker}: made from the lock file {found}, the cell needs "
            f"{spec.requirements_sha256}; run `sameweights provision {spec.device} "
            f"--backend {spec.backend}`"
        )


def check_files(folder: Path, expected: Mapping[str, str], log: Log) -> None:
    """Compare every file of the model folder with its SHA-256; raises CheckFailure."""
    if not folder.is_dir():
        raise CheckFailure(f"{folder}: no such model folder")
    for name, sha256 in sorted(expected.items()):
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise CheckFailure(f"cell.json: files: {name!r} leaves the model folder")
        path = folder / relative
        if not path.is_file():
            raise CheckFailure(f"{path}: missing; the cell expects SHA-256 {sha256}")
        found = file_sha256(path)
        if found != sha256:
            raise CheckFailure(f"{path}: changed: SHA-256 {found}, the cell expects {sha256}")
    # Hidden files are tools' marks (a workflow's time stamp); no runtime reads them.
    present = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    if extra := sorted(present - expected.keys()):
        log(f"{folder}: files that the cell does not name: {', '.join(extra)}")


def read_requests(path: Path, sha256: str) -> list[Request]:
    """Read the request file; raises CheckFailure for another file, ContractError for a bad line."""
    found = file_sha256(path)
    if found != sha256:
        raise CheckFailure(f"{path}: SHA-256 {found}, the cell expects {sha256}")
    requests: list[Request] = []
    seen: set[str] = set()
    for number, record in enumerate(read_jsonl(path), start=1):
        try:
            request = Request.from_json(record)
        except (ContractError, TypeError) as error:
            raise ContractError(f"{path}: line {number}: {error}") from error
        if request.request_id in seen:
            raise ContractError(f"{path}: line {number}: request {request.request_id} twice")
        if fault := _find_fault(request):
            raise ContractError(f"{path}: line {number}: {request.kind}: {fault}")
        seen.add(request.request_id)
        requests.append(request)
    return requests


def _find_fault(request: Request) -> str | None:
    """Say what makes a request impossible to run, if anything."""
    if not request.prompt_ids:
        return "key 'prompt_ids' is empty; at least one token is needed"
    if request.kind == "generate":
        few = request.max_new_tokens < 1
        return f"key 'max_new_tokens' is {request.max_new_tokens}; at least 1" if few else None
    return None if request.continuation_ids else "key 'continuation_ids' is empty"
