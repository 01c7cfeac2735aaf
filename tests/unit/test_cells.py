"""The matrix: product, include, exclude, capability rules; every hole keeps its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sameweights.capabilities import missing_cpu_flags
from sameweights.cells import Matrix, Registries, describe_matrix, plan_matrix
from sameweights.config import load_config
from sameweights.errors import UserError

BASE: dict[str, Any] = {
    "models": ["m"],
    "devices": ["cpu", "gpu"],
    "backends": ["torch", "trt"],
    "precisions": ["fp32", "int8"],
    "tasks": ["t"],
    "reference": {"device": "cpu", "backend": "torch", "precision": "fp32"},
    "target": {"device": "gpu", "backend": "trt", "precision": "int8"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    entries = {
        "models/m": {"description": "m", "source": {"kind": "folder", "path": "/m"}},
        "devices/cpu": {"description": "c"},
        "devices/gpu": {"description": "g", "accelerator": "cuda"},
        "backends/torch": {"description": "t", "adapter": "torch"},
        "backends/trt": {"description": "t", "adapter": "trtllm_engine"},
        "precisions/fp32": {"description": "f", "recipe": {}, "canary_tolerance_nats": 0.1},
        "precisions/int8": {"description": "i", "recipe": {}, "canary_tolerance_nats": 0.1},
    }
    for name, entry in entries.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(entry))
    rule = {
        "id": "trt-needs-cuda",
        "when": {"backend.adapter": ["trtllm_engine"]},
        "require": {"device.accelerator": ["cuda"]},
        "reason": "NVIDIA only",
    }
    (tmp_path / "capabilities.yaml").write_text(yaml.safe_dump([rule]))
    return tmp_path


def plan(folder: Path, **changes: Any) -> Matrix:
    config = load_config({**BASE, **changes})
    return plan_matrix(config, Registries.read(folder), folder / "capabilities.yaml")


def test_product_with_a_rule_that_makes_a_hole(folder: Path) -> None:
    matrix = plan(folder)
    assert len(matrix.cells) == 8
    holes = {c.id: c.reason for c in matrix.cells if c.reason}
    assert set(holes) == {"m/cpu/trt/fp32/s0", "m/cpu/trt/int8/s0"}
    assert all(
        r and "NVIDIA only" in r and "device.accelerator is 'cpu'" in r for r in holes.values()
    )


def test_runs_are_cells_times_replicates(folder: Path) -> None:
    matrix = plan(folder, replicates=3)
    assert len(matrix.runs) == 6 * 3
    cell, replicate = matrix.find_run("m/gpu/trt/int8/s0/r2")
    assert (cell.device, replicate) == ("gpu", 2)
    with pytest.raises(UserError, match="r3"):
        matrix.find_run("m/gpu/trt/int8/s0/r3")


def test_exclude_keeps_its_reason_and_include_adds(folder: Path) -> None:
    matrix = plan(
        folder,
        backends=["torch"],
        exclude=[{"device": "gpu", "precision": "fp32", "reason": "too slow"}],
        include=[{"device": "gpu", "backend": "trt", "precision": "int8"}],
    )
    assert {c.id: c.reason for c in matrix.cells if c.reason} == {"m/gpu/torch/fp32/s0": "too slow"}
    assert "m/gpu/trt/int8/s0" in {c.id for c in matrix.planned}


def test_exclude_without_reason_or_without_match_is_an_error(folder: Path) -> None:
    with pytest.raises(UserError, match=r"exclude\[0\].*'reason'"):
        plan(folder, exclude=[{"device": "gpu"}])
    with pytest.raises(UserError, match="matches no cell"):
        plan(folder, exclude=[{"device": "tpu", "reason": "none here"}])


def test_unknown_names_say_what_was_meant(folder: Path) -> None:
    with pytest.raises(UserError, match=r"devices: 'gpuu'.*did you mean 'gpu'"):
        plan(folder, devices=["gpuu"])
    with pytest.raises(UserError, match=r"unknown key 'precision'.*did you mean 'precisions'"):
        load_config({**BASE, "precision": ["int8"]})


def test_target_outside_the_matrix_is_an_error(folder: Path) -> None:
    with pytest.raises(UserError, match="target gpu/trt/int8 is not in the matrix"):
        plan(folder, devices=["cpu"])


def test_overrides_from_the_command_line_arrive_as_text() -> None:
    config = load_config({**BASE, "precisions": '["int8"]', "limit": "5"})
    assert config.precisions == ["int8"]
    assert config.limit == 5


def test_cpu_flags_are_looked_up_in_cpuinfo(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu sse4_1 avx2\n")
    assert missing_cpu_flags(["sse4_1", "avx512f"], cpuinfo) == ["avx512f"]
    assert missing_cpu_flags(["avx2"], tmp_path / "absent") == ["avx2"]
    assert missing_cpu_flags([], tmp_path / "absent") == []


def test_matrix_json_lists_holes_beside_planned_cells(folder: Path) -> None:
    described = describe_matrix(plan(folder), Registries.read(folder))
    states = [cell["state"] for cell in described["cells"]]
    assert (states.count("planned"), states.count("excluded")) == (6, 2)
    assert all(cell["reason"] for cell in described["cells"] if cell["state"] == "excluded")
