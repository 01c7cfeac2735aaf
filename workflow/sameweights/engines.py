"""Build an engine on its device. One serves all seeds and replicates of a cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.contract import CellSpec, file_sha256
from sameweights.errors import UserError
from sameweights.remote.exits import explain_exit
from sameweights.remote.mode import require_mode
from sameweights.remote.transport import Parcel, Transport, TransportError
from sameweights.specs import extract_spec

LOG_TAIL_CHARS = 2000


def find_run(specs: Path, engine: str) -> str:
    """Return one run of `<model>/<device>/<backend>/<precision>`; raises UserError for none."""
    for run in json.loads(specs.read_bytes()):
        if run.startswith(f"{engine}/s"):
            return str(run)
    raise UserError(f"{specs}: no run of {engine!r}")


def find_calibration(recipe: Mapping[str, Any], folder: Path) -> Path | None:
    """Return the texts whose SHA-256 the recipe pins; raises UserError when no file has it."""
    wanted = recipe.get("calibration")
    if wanted is None:
        return None
    for path in sorted(folder.glob("*.jsonl")):
        if file_sha256(path) == wanted:
            return path
    raise UserError(f"{folder}: no file has the SHA-256 {wanted} that the precision names")


def build_on_device(
    transport: Transport,
    runner_pyz: Path,
    specs: Path,
    engine: str,
    model_dir: Path,
    calibrations: Path,
    out: Path,
) -> dict[str, Any]:
    """Build, or find built, and write {"outcome", "reason", "engine"} to `out`.

    A failed build is an answer too: its runs then fail with this reason, and no other stops.
    `engine` in the record is the device's engine.json.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    log = out.with_name("build.log")
    record: dict[str, Any] = {"outcome": "complete", "reason": None, "engine": None}
    try:
        cell_json = out.with_name("cell.json")
        spec = extract_spec(specs, find_run(specs, engine), cell_json)
        calibration = find_calibration(spec.recipe, calibrations)
        record["engine"] = _push_build_fetch(
            transport, runner_pyz, spec, cell_json, model_dir, calibration, out, log
        )
    except (UserError, OSError, ValueError) as error:
        record |= {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"}
    part = out.with_name(out.name + ".part")
    part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    part.replace(out)
    return record


def _push_build_fetch(
    transport: Transport,
    runner_pyz: Path,
    spec: CellSpec,
    cell_json: Path,
    model_dir: Path,
    calibration: Path | None,
    out: Path,
    log: Path,
) -> dict[str, Any]:
    require_mode(transport, out.parent)
    folder = f"builds/{spec.identity}"
    parcels = [
        Parcel(runner_pyz, f"runner-{file_sha256(runner_pyz)[:16]}.pyz"),
        Parcel(model_dir, f"models/{spec.model}", spec.files),
        Parcel(cell_json, f"{folder}/cell.json"),
    ]
    if calibration is not None:
        parcels.append(Parcel(calibration, f"calibration/{file_sha256(calibration)}.jsonl"))
    pyz, model, cell, *texts = transport.push(*parcels)
    arguments = ["build", "--cell", cell, "--model", model, "--out", f"{folder}/engine.json"]
    arguments += ["--lock", "device.lock", *(["--calibration", *texts] if texts else [])]
    code = transport.run([pyz, *arguments], log)
    explain_exit(code, spec, log)
    incoming = out.with_name("engine.json.fetched")
    if code != 0 or not transport.fetch(f"{folder}/engine.json", incoming):
        tail = log.read_text(errors="replace")[-LOG_TAIL_CHARS:].strip()
        raise TransportError(f"{spec.device}: the build ended with code {code}: {tail}")
    engine: dict[str, Any] = json.loads(incoming.read_bytes())
    incoming.unlink()
    return engine


def why_no_engine(path: Path | None) -> str | None:
    """Return why the engine of a run was not built; None where it was, or where none is needed."""
    if path is None:
        return None
    record = json.loads(path.read_bytes())
    return None if record["outcome"] == "complete" else f"no engine: {record['reason']}"
