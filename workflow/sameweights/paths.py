"""Where every file of a run lies. The only module that spells a result path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Paths below the results folder; the braces in `str` forms are Snakemake wildcards."""

    results: Path

    def model(self, model: str) -> Path:
        return self.results / "models" / model

    def manifest(self, model: str) -> Path:
        return self.results / "models" / f"{model}.manifest.json"

    def artifact(self, model: str, converter: str, precision: str) -> Path:
        return self.results / "artifacts" / model / converter / precision

    def artifact_manifest(self, model: str, converter: str, precision: str) -> Path:
        folder = self.artifact(model, converter, precision)
        return folder.with_name(f"{folder.name}.manifest.json")

    def weights(self, model: str, converter: str | None, precision: str) -> Path:
        """Folder that a cell loads: an artefact, or the model itself."""
        return self.artifact(model, converter, precision) if converter else self.model(model)

    def weights_manifest(self, model: str, converter: str | None, precision: str) -> Path:
        if converter:
            return self.artifact_manifest(model, converter, precision)
        return self.manifest(model)

    def environment(self, name: str) -> Path:
        """Folder of a backend's own Python environment on the hub."""
        return self.results / "envs" / name

    def environment_marker(self, name: str) -> Path:
        return self.results / "envs" / f"{name}.installed"

    def requests(self, model: str, seed: int | str) -> Path:
        return self.results / "requests" / model / f"s{seed}.parquet"

    def requests_jsonl(self, model: str, seed: int | str) -> Path:
        return self.requests(model, seed).with_suffix(".jsonl")

    def docs(self, model: str, seed: int | str) -> Path:
        return self.requests(model, seed).with_suffix(".docs.parquet")

    def requests_meta(self, model: str, seed: int | str) -> Path:
        return self.requests(model, seed).with_suffix(".meta.json")

    def canary(self, model: str) -> Path:
        return self.results / "canary" / f"{model}.json"

    def run(self, run: str) -> Path:
        """Folder of one run, `<model>/<device>/<backend>/<precision>/s<seed>/r<replicate>`."""
        return self.results / "cells" / run

    def engine(self, engine: str) -> Path:
        """Record of one engine, `<model>/<device>/<backend>/<precision>`."""
        return self.results / "engines" / engine / "engine.json"

    @property
    def runner(self) -> Path:
        return self.results / "runner.pyz"

    @property
    def matrix(self) -> Path:
        return self.results / "matrix.json"

    @property
    def warehouse(self) -> Path:
        return self.results / "warehouse.duckdb"

    @property
    def comparison(self) -> Path:
        return self.results / "comparison.parquet"

    @property
    def attribution(self) -> Path:
        return self.results / "attribution.json"

    @property
    def report(self) -> Path:
        return self.results / "report.html"

    @property
    def report_items(self) -> Path:
        return self.results / "report-items"
