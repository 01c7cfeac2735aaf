"""The run's configuration: which matrix, which tasks, which cell is compared with which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from sameweights.registry import Closed, validate


class CellPattern(Closed):
    """Names some cells: a key left out matches every value of it."""

    model: str | None = None
    device: str | None = None
    backend: str | None = None
    precision: str | None = None
    seed: int | None = None
    reason: str | None = None

    def matches(self, cell: dict[str, Any]) -> bool:
        wanted = self.model_dump(exclude={"reason"}, exclude_none=True)
        return all(cell[key] == value for key, value in wanted.items())


class CellName(Closed):
    """Names one cell of the matrix, whatever the model and seed."""

    device: str
    backend: str
    precision: str


class CellNamePair(Closed):
    """Two cells that are compared whatever the size of the matrix."""

    a: CellName
    b: CellName


class PrimaryView(Closed):
    """What stands for a task in pooled numbers; a key left out takes the first of its YAML."""

    filter: str | None = None
    metric: str | None = None


class RunConfig(Closed):
    """config.yaml: what to run. How to run it belongs in a profile."""

    models: list[str] = Field(min_length=1, description="ids in config/models")
    devices: list[str] = Field(min_length=1, description="ids in config/devices")
    backends: list[str] = Field(min_length=1, description="ids in config/backends")
    precisions: list[str] = Field(min_length=1, description="ids in config/precisions")
    seeds: list[int] = Field(default=[0], min_length=1, description="few-shot and sampling seeds")
    replicates: int = Field(
        default=2, ge=1, le=20, description="runs of every cell; 2 give a noise floor"
    )
    tasks: list[str] = Field(
        min_length=1, description="lm-eval task names; local ones in config/tasks"
    )
    limit: int | None = Field(
        default=None, ge=1, description="items per task, the first ones; null = all"
    )
    num_fewshot: int | None = Field(default=None, ge=0, description="null = what the task says")
    include: list[CellName] = Field(default=[], description="cells beside the product of the lists")
    exclude: list[CellPattern] = Field(default=[], description="holes, each with its reason")
    reference: CellName = Field(description="the cell compared against")
    target: CellName = Field(description="the cell under test")
    primary: dict[str, PrimaryView] = Field(
        default={}, description="by task: the filter and metric of pooled numbers"
    )
    pairs: list[CellNamePair] = Field(
        default=[], description="pairs to compare beside the neighbours in a large matrix"
    )
    request_timeout_s: float | None = Field(
        default=None, gt=0, description="per request; null = none"
    )
    results: str = Field(default="results", description="folder for everything that is made")


def load_config(raw: dict[str, Any], where: str = "config/config.yaml") -> RunConfig:
    """Validate a configuration as Snakemake hands it over (file plus --config overrides).

    A list or mapping given on the command line may arrive as text; it is parsed as YAML.
    Raises UserError listing every bad key.
    """
    fields = RunConfig.model_fields
    cleaned = {key: _parse(value, key, fields) for key, value in raw.items()}
    return validate(cleaned, RunConfig, where)


def describe_questions(config: RunConfig) -> dict[str, Any]:
    """Return what of matrix.json is about the comparison alone and changes no run."""
    names = [
        ["/".join(cell.model_dump().values()) for cell in (pair.a, pair.b)] for pair in config.pairs
    ]
    views = {task: view.model_dump() for task, view in config.primary.items()}
    return {"primary": views, "pairs": names}


def _parse(value: Any, key: str, fields: Any) -> Any:
    """Turn the text of a --config override into the list, mapping or number that it spells."""
    if key in fields and isinstance(value, str) and fields[key].annotation is not str:
        return yaml.safe_load(value)
    return value


def write_schema(path: Path) -> None:
    """Write the JSON Schema of config.yaml (generated; a test fails when it is out of date)."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= RunConfig.model_json_schema()
    path.write_text(json.dumps(schema, indent=2, sort_keys=True) + "\n", encoding="utf-8")
