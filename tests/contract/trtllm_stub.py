"""Opens a TensorRT-LLM backend on a stand-in of its runtime, engine built by stand-in programs."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.backends import Backend, load_adapter
from runner.contract import CellSpec, file_sha256

STUBS = Path(__file__).parents[1] / "stubs"
STANDING_IN = ("tensorrt_llm", "stub_llm_api", "vllm", "sglang", "stub_candidates")
EXAMPLES = STUBS / "programs" / "examples"


@contextlib.contextmanager
def stub_runtime(name: str) -> Iterator[None]:
    """Make one stand-in importable and its programs callable, and forget them afterwards."""
    paths = [str(STUBS / name), str(STUBS)]
    before = os.environ["PATH"]
    sys.path[:0] = paths
    os.environ["PATH"] = f"{STUBS / 'programs'}{os.pathsep}{before}"
    _forget()
    try:
        yield
    finally:
        os.environ["PATH"] = before
        for path in paths:
            sys.path.remove(path)
        _forget()


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, as the runner works in its device's."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def open_on_stub(
    stub: str,
    spec: CellSpec,
    model: Path,
    workdir: Path,
    fault: str = "none",
    calibration: Path | None = None,
) -> Backend:
    """Return the cell's backend; its engine is built first where it needs one."""
    files = {p.name: file_sha256(p) for p in model.iterdir() if p.is_file()}
    spec = replace(spec, files=files)
    os.environ["STUB_FAULT"] = fault
    try:
        with stub_runtime(stub), inside(workdir):
            adapter: Any = load_adapter(spec.adapter)
            if hasattr(adapter, "build"):
                adapter.build(model, spec, None, calibration, print)
            backend: Backend = adapter(model, spec)
            # Engines open when they are needed: a place that a test may have left by then.
            for purpose, place in getattr(backend, "places", {}).items():
                backend.places[purpose] = workdir / place  # type: ignore[attr-defined]
            return backend
    finally:
        del os.environ["STUB_FAULT"]


def _forget() -> None:
    for name in [n for n in sys.modules if n.split(".")[0] in STANDING_IN]:
        del sys.modules[name]
    importlib.invalidate_caches()
