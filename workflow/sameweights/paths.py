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
