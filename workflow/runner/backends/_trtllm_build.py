"""Make a TensorRT-LLM engine on this device: checkpoint, build, record.

Builds are not deterministic (kernels are picked by their timing), so that `build` is a factor of
the matrix: each number is an engine of its own from the same checkpoint. Commands are argument
lists; their whole output goes to build.log beside the engine.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from runner.backends._trtllm_convert import (
    check_quantization,
    check_texts,
    convert_checkpoint,
    convert_facts,
)
from runner.backends._trtllm_recipe import (
    build_arguments,
    flags_in,
    quantization_of,
    split_recipe,
)
from runner.checks import CheckFailure
from runner.contract import CellSpec, canonical_json, digest, file_sha256
from runner.engine import RECORD, engine_folder, engine_key, write_engine
from runner.journal import Log
from runner.runtime import require_flags

CONVERTED = "converted.json"
TAIL_BYTES = 2000


class Builder:
    """One build; `folder` is the engine's, shared things lie in its parent."""

    def __init__(
        self,
        spec: CellSpec,
        options: Mapping[str, Any],
        model_dir: Path,
        version: str,
        log: Log,
    ) -> None:
        self.spec = spec
        self.options = options
        self.recipe, self.calibration_sha256 = split_recipe(spec.recipe)
        self.model_dir = model_dir
        self.folder = engine_folder(spec)
        self.version = version
        self.log = log
        self.commands: list[list[str]] = []
        self.started_utc = _now()

    def build(self, checkpoint: Path | None, calibration: Path | None) -> None:
        """Write the engine and its record; does nothing where the record is there.

        `checkpoint` is one converted elsewhere (None: convert here); `calibration` a file of
        {"text": ...} lines whose SHA-256 the recipe pins. Raises CheckFailure for what does not
        fit, OSError and RuntimeError for what breaks.
        """
        if (self.folder / RECORD).is_file():
            self.log(f"{self.folder}: built already, nothing to do")
            return
        # What an interrupted build left behind belongs to no record.
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if checkpoint is None:
            checkpoint, made = self._convert(calibration)
        else:
            made = {"made": "elsewhere", "files": hash_files(checkpoint)}
        check_quantization(checkpoint, self.recipe)
        kept = self._kept_cache()
        parts = {name: self._build_part(name, checkpoint, kept) for name in self._parts()}
        if self.options["timing_cache"] == "kept" and kept is None:
            self._keep_cache(next(iter(parts)))
        write_engine(self.folder, self._record(made, parts))

    def _parts(self) -> dict[str, tuple[str, ...]]:
        if self.options["engines"] == "one":
            return {"both": ("scoring", "generation")}
        return {"scoring": ("scoring",), "generation": ("generation",)}

    def _convert(self, calibration: Path | None) -> tuple[Path, dict[str, Any]]:
        """Return the checkpoint and how it was made; one serves all builds of a recipe."""
        check_texts(calibration, self.calibration_sha256)
        examples = Path(self.options["examples"])
        _, found = convert_facts(self.model_dir, self.spec.recipe, examples)
        facts = {**found, "weights": self.spec.files, "tensorrt_llm": self.version}
        folder = self.folder.parent / f"checkpoint-{digest(facts)[:16]}"
        done = folder.parent / f"{folder.name}.{CONVERTED}"
        if done.is_file():
            made: dict[str, Any] = json.loads(done.read_bytes())
            if made["files"] == hash_files(folder):
                return folder, made
            self.log(f"{folder}: changed since it was made; converting again")
        shutil.rmtree(folder, ignore_errors=True)
        convert_checkpoint(
            *(self.model_dir, self.spec.recipe, examples, calibration),
            *(self.folder.parent, folder, self._run),
        )
        made = {"made": "here", **facts, "files": hash_files(folder)}
        done.write_bytes(canonical_json(made))
        return folder, made

    def _build_part(self, name: str, checkpoint: Path, kept: Path | None) -> dict[str, Any]:
        out = self.folder / name
        out.mkdir()
        arguments = build_arguments(
            self.recipe,
            checkpoint,
            out,
            self.options["max_seq_len"],
            self._parts()[name],
            kept,
        )
        self._run([find_program("trtllm-build")], arguments)
        if not list(out.glob("rank*.engine")):
            raise RuntimeError(f"{out}: trtllm-build left no engine; see {self.folder}/build.log")
        cache = out / "model.cache"
        return {
            "purposes": list(self._parts()[name]),
            "flags": arguments,
            "engine_sha256": {p.name: file_sha256(p) for p in sorted(out.glob("rank*.engine"))},
            "timing_cache_in_sha256": file_sha256(kept) if kept else None,
            "timing_cache_out_sha256": file_sha256(cache) if cache.is_file() else None,
        }

    def _cache_path(self) -> Path:
        # A cache is of one GPU and one version; the engines folder is of one device.
        return self.folder.parent / f"timing-{self.version}.cache"

    def _kept_cache(self) -> Path | None:
        path = self._cache_path()
        return path if self.options["timing_cache"] == "kept" and path.is_file() else None

    def _keep_cache(self, part: str) -> None:
        source = self.folder / part / "model.cache"
        if source.is_file():
            shutil.copyfile(source, self._cache_path())

    def _run(self, program: list[str], arguments: list[str]) -> None:
        """Run a program whose help names every flag; raises RuntimeError with the log's end."""
        require_flags([*program, "--help"], flags_in(arguments))
        command = [*program, *arguments]
        self.commands.append(command)
        self.log(f"build: {' '.join(command)}")
        path = self.folder / "build.log"
        with path.open("ab") as output:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            ).returncode
        if code != 0:
            tail = path.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
            raise RuntimeError(f"{program[-1]} ended with {code}:\n{tail}")

    def _record(self, made: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
        return {
            "key": engine_key(self.spec),
            "cell": self.spec.cell,
            "build": self.options["build"],
            "recipe": dict(self.recipe),
            "weights_digest": digest(self.spec.files),
            "calibration_sha256": self.calibration_sha256,
            "checkpoint": made,
            "quantization": quantization_of(self.recipe),
            "parts": parts,
            "tensorrt_llm": self.version,
            "tensorrt": tensorrt_version(),
            "gpu": gpu_facts(),
            "commands": self.commands,
            "files": hash_files(self.folder),
            "started_utc": self.started_utc,
            "ended_utc": _now(),
        }


def hash_files(folder: Path) -> dict[str, str]:
    """Return {relative path: SHA-256} of all files below a folder, logs left out."""
    return {
        path.relative_to(folder).as_posix(): file_sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".log"
    }


def find_program(name: str) -> str:
    """Return a program beside this Python, or on the path; raises CheckFailure."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise CheckFailure(f"{name}: not beside {sys.executable} and not on PATH")
    return found


def tensorrt_version() -> str | None:
    """Return the version of TensorRT; JetPack's own has no package metadata in an environment."""
    try:
        return importlib.metadata.version("tensorrt")
    except importlib.metadata.PackageNotFoundError:
        try:
            tensorrt: Any = importlib.import_module("tensorrt")
        except ImportError:
            return None
        return str(tensorrt.__version__)


def gpu_facts() -> dict[str, Any] | None:
    """Return the GPU's name and compute capability; None where torch sees none."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability(0)
    return {"name": torch.cuda.get_device_name(0), "compute_capability": f"{major}.{minor}"}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
