"""The matrix: models x devices x backends x precisions x seeds, with every hole explained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from sameweights.capabilities import exclusion_reason, missing_cpu_flags, read_rules
from sameweights.config import CellName, RunConfig
from sameweights.errors import UserError
from sameweights.registry import (
    BackendEntry,
    DeviceEntry,
    ModelEntry,
    PrecisionEntry,
    Registry,
)


@dataclass(frozen=True)
class Registries:
    """All registries of one configuration folder."""

    models: Registry[ModelEntry]
    devices: Registry[DeviceEntry]
    backends: Registry[BackendEntry]
    precisions: Registry[PrecisionEntry]

    @classmethod
    def read(cls, folder: Path) -> Registries:
        return cls(
            Registry(folder / "models", ModelEntry),
            Registry(folder / "devices", DeviceEntry),
            Registry(folder / "backends", BackendEntry),
            Registry(folder / "precisions", PrecisionEntry),
        )


@dataclass(frozen=True)
class Cell:
    """One model x device x backend x precision x seed; `reason` says why it is excluded."""

    model: str
    device: str
    backend: str
    precision: str
    seed: int
    reason: str | None = None

    @property
    def id(self) -> str:
        return f"{self.model}/{self.device}/{self.backend}/{self.precision}/s{self.seed}"


@dataclass(frozen=True)
class Matrix:
    """Every cell that the configuration names, planned or excluded."""

    cells: list[Cell]
    replicates: int
    reference: CellName
    target: CellName

    @property
    def planned(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.reason is None]

    @property
    def runs(self) -> list[str]:
        """Ids of all runs, `<cell>/r<replicate>`: the unit that a device executes."""
        return [f"{cell.id}/r{n}" for cell in self.planned for n in range(self.replicates)]

    def find_run(self, run: str) -> tuple[Cell, int]:
        """Return the cell and replicate of a run id; raises UserError for an unknown one."""
        cell_id, _, replicate = run.rpartition("/r")
        for cell in self.planned:
            if cell.id == cell_id and replicate.isdigit() and int(replicate) < self.replicates:
                return cell, int(replicate)
        raise UserError(f"run {run!r} is not in the matrix")


def plan_matrix(config: RunConfig, registries: Registries, rules_path: Path) -> Matrix:
    """Expand the configuration; every hole keeps its reason.

    Raises UserError for an id that no registry has, an exclude that matches nothing or gives no
    reason, or a reference or target that is not in the matrix.
    """
    where = "config"
    entries: dict[str, dict[str, Any]] = {
        "model": {m: registries.models.get(m, f"{where}: models") for m in config.models},
        "device": {d: registries.devices.get(d, f"{where}: devices") for d in config.devices},
        "backend": {b: registries.backends.get(b, f"{where}: backends") for b in config.backends},
        "precision": {
            p: registries.precisions.get(p, f"{where}: precisions") for p in config.precisions
        },
    }
    names = list(product(config.devices, config.backends, config.precisions))
    for extra in config.include:
        entries["device"][extra.device] = registries.devices.get(extra.device, "config: include")
        entries["backend"][extra.backend] = registries.backends.get(
            extra.backend, "config: include"
        )
        entries["precision"][extra.precision] = registries.precisions.get(
            extra.precision, "config: include"
        )
        names.append((extra.device, extra.backend, extra.precision))

    rules = read_rules(rules_path)
    used = [False] * len(config.exclude)
    cells = []
    for model, (device, backend, precision), seed in product(
        config.models, dict.fromkeys(names), config.seeds
    ):
        cell = Cell(model, device, backend, precision, seed)
        reason = None
        for n, pattern in enumerate(config.exclude):
            if pattern.matches(asdict(cell)):
                used[n] = True
                reason = reason or pattern.reason
        facts = {
            kind: {"id": name, **entries[kind][name].model_dump()}
            for kind, name in asdict(cell).items()
            if kind in entries
        }
        reason = reason or exclusion_reason(rules, facts) or _lacks_flags(facts["device"])
        cells.append(Cell(model, device, backend, precision, seed, reason))

    for n, pattern in enumerate(config.exclude):
        if not pattern.reason:
            raise UserError(
                f"config: exclude[{n}]: key 'reason' is missing: every hole is explained"
            )
        if not used[n]:
            raise UserError(f"config: exclude[{n}] matches no cell: {pattern.model_dump()}")
    for role, name in (("reference", config.reference), ("target", config.target)):
        wanted = (name.device, name.backend, name.precision)
        if not any((c.device, c.backend, c.precision) == wanted for c in cells):
            raise UserError(f"config: {role} {'/'.join(wanted)} is not in the matrix")
    return Matrix(cells, config.replicates, config.reference, config.target)


def _lacks_flags(device: dict[str, Any]) -> str | None:
    if device["transport"] != "local":
        return None
    missing = missing_cpu_flags(device["requires_cpu_flags"])
    return f"this machine's CPU lacks {', '.join(missing)}" if missing else None


def describe_matrix(matrix: Matrix, registries: Registries) -> dict[str, Any]:
    """Return matrix.json: the whole plan with holes and reasons, for the warehouse and report."""
    devices = {cell.device for cell in matrix.cells}
    return {
        "reference": "/".join(matrix.reference.model_dump().values()),
        "target": "/".join(matrix.target.model_dump().values()),
        "devices": {
            name: registries.devices.get(name, "matrix").model_dump() for name in sorted(devices)
        },
        "cells": [
            {
                "cell": cell.id,
                **{k: v for k, v in asdict(cell).items() if k != "reason"},
                "replicates": list(range(matrix.replicates)) if cell.reason is None else [],
                "state": "planned" if cell.reason is None else "excluded",
                "reason": cell.reason,
                "path": f"cells/{cell.id}",
            }
            for cell in matrix.cells
        ],
    }
