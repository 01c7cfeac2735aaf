"""cell.json of every run: the registries' entries and the hashes of all inputs, joined."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from runner.contract import RUNNER_VERSION, CellSpec, file_sha256
from sameweights.cells import Cell, Matrix, Registries
from sameweights.errors import UserError
from sameweights.paths import Layout


def specify_run(
    cell: Cell,
    replicate: int,
    registries: Registries,
    manifest: dict[str, Any],
    requirements_sha256: str | None,
    requests_sha256: str,
    canary: dict[str, Any],
    request_timeout_s: float | None,
) -> CellSpec:
    """Return everything that can change the run's numbers, and nothing else."""
    device = registries.devices.get(cell.device, cell.id)
    backend = registries.backends.get(cell.backend, cell.id)
    precision = registries.precisions.get(cell.precision, cell.id)
    return CellSpec(
        cell=cell.id,
        model=cell.model,
        device=cell.device,
        backend=cell.backend,
        precision=cell.precision,
        seed=cell.seed,
        replicate=replicate,
        adapter=backend.adapter,
        options=backend.options,
        recipe=precision.recipe,
        env=device.run_env,
        threads=device.threads,
        files=manifest["files"],
        requests_sha256=requests_sha256,
        request_timeout_s=request_timeout_s,
        canary={**canary, "tolerance_nats": precision.canary_tolerance_nats},
        runner_version=RUNNER_VERSION,
        requirements_sha256=requirements_sha256,
    )


def lock_sha256(requirements: str | None) -> str | None:
    """Hash the lock file of a backend's environment; raises UserError when it is missing."""
    if requirements is None:
        return None
    if not Path(requirements).is_file():
        raise UserError(f"{requirements}: no such requirements file")
    return file_sha256(Path(requirements))


def write_specs(
    matrix: Matrix,
    registries: Registries,
    model: str,
    seed: int,
    layout: Layout,
    requests: Path,
    canary: Path,
    request_timeout_s: float | None,
    out: Path,
) -> None:
    """Write {run id: cell.json} for all runs of one model and seed."""
    canary_record = json.loads(canary.read_bytes())
    requests_sha256 = file_sha256(requests)
    # Many cells share a manifest and a lock file; a manifest names every file of a model.
    read, digest = cache(_read_json), cache(lock_sha256)
    specs = {
        f"{cell.id}/r{replicate}": specify_run(
            cell,
            replicate,
            registries,
            read(find_manifest(layout, cell, registries)),
            digest(registries.backends.get(cell.backend, cell.id).requirements),
            requests_sha256,
            canary_record,
            request_timeout_s,
        ).to_json()
        for cell in matrix.planned
        if cell.model == model and cell.seed == seed
        for replicate in range(matrix.replicates)
    }
    part = out.with_name(out.name + ".part")
    part.write_text(json.dumps(specs) + "\n", encoding="utf-8")
    part.replace(out)


def find_manifest(layout: Layout, cell: Cell, registries: Registries) -> Path:
    """Return the manifest of what a cell loads: its backend's artefact, or the model's folder."""
    converter = registries.backends.get(cell.backend, cell.id).artifact
    return layout.weights_manifest(cell.model, converter, cell.precision)


def extract_spec(specs: Path, run: str, out: Path) -> CellSpec:
    """Copy one run's cell.json out of the specs file; raises UserError for an unknown run."""
    record = json.loads(specs.read_bytes()).get(run)
    if record is None:
        raise UserError(f"{specs}: no run {run!r}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return CellSpec.from_json(record)


def _read_json(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_bytes())
    return record
