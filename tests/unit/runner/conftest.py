"""A complete small cell of the fake backend on disk, and the packed runner to run it with."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from runner.contract import CellSpec, Request, file_sha256, write_jsonl
from runner.pack import build_pyz

RECIPE = {"weights": "fp32", "activations": "fp32", "compute": "fp32"}


@dataclass(frozen=True)
class CellOnDisk:
    """The inputs of one run and the command that runs it."""

    folder: Path
    pyz: Path
    requests: list[Request]
    spec: CellSpec

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def journal(self) -> Path:
        return self.out / "responses.jsonl"

    def command(self, out: Path | None = None) -> list[str]:
        names = {
            "--cell": self.folder / "cell.json",
            "--requests": self.folder / "requests.jsonl",
            "--model": self.folder / "model",
            "--out": out or self.out,
            "--lock": self.folder / "device.lock",
        }
        pairs = [str(part) for pair in names.items() for part in pair]
        return [sys.executable, "-S", "-E", str(self.pyz), "run", *pairs]

    def run(self, out: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(out), capture_output=True, text=True, timeout=60, **options
        )

    def record(self, out: Path | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(((out or self.out) / "run.json").read_bytes())
        return found

    def change(self, **changes: Any) -> CellOnDisk:
        """Write cell.json anew with some fields changed."""
        spec = replace(self.spec, **changes)
        (self.folder / "cell.json").write_text(json.dumps(spec.to_json()))
        return replace(self, spec=spec)


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_pyz(tmp_path_factory.mktemp("pyz") / "runner.pyz")


@pytest.fixture
def cell(tmp_path: Path, pyz: Path) -> CellOnDisk:
    requests = [Request("loglikelihood", [i % 60 + 1, 2], [3, i % 50 + 4]) for i in range(60)]
    requests += [
        Request("generate", [i % 60 + 1], until=["A"], max_new_tokens=12, repeat=i // 60)
        for i in range(70)
    ]
    write_jsonl(tmp_path / "requests.jsonl", (request.to_json() for request in requests))
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights.bin").write_bytes(b"weights")
    spec = CellSpec(
        cell="tiny/here/fake/fp32/s0",
        model="tiny",
        device="here",
        backend="fake",
        precision="fp32",
        seed=0,
        replicate=0,
        adapter="fake",
        options={"batch_size": 4},
        recipe=RECIPE,
        env={},
        threads=1,
        files={"weights.bin": file_sha256(model / "weights.bin")},
        requests_sha256=file_sha256(tmp_path / "requests.jsonl"),
    )
    return CellOnDisk(tmp_path, pyz, requests, spec).change()
