"""OpenVINO's settings by recipe, and that what is not in force stops the cell."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runner.backends.openvino import FP32, LOSSY, Backend, Model, settings_of
from runner.checks import CheckFailure

DEFAULT = {"weights": "fp32", "activations": "bf16", "library": "openvino", **LOSSY}


def test_fp32_is_fp32_in_every_property() -> None:
    settings = settings_of(FP32, 3)
    assert {settings[k] for k in settings if k.endswith(("_PRECISION", "PRECISION_HINT"))} == {
        "f32"
    }
    assert settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] == "0"
    assert settings["EXECUTION_MODE_HINT"] == "ACCURACY"
    assert (settings["NUM_STREAMS"], settings["INFERENCE_NUM_THREADS"]) == ("1", "3")


def test_the_lossy_defaults_are_asked_for_by_name() -> None:
    assert DEFAULT in Backend.PRECISIONS
    settings = settings_of(DEFAULT, 1)
    assert settings["INFERENCE_PRECISION_HINT"] == "bf16"
    assert settings["KV_CACHE_PRECISION"] == "u8"
    assert settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] == "32"
    assert settings["EXECUTION_MODE_HINT"] == "PERFORMANCE"


def test_a_property_that_is_not_in_force_stops_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(FP32, 1)

    class Compiled:
        def get_property(self, name: str) -> Any:
            if name == "SUPPORTED_PROPERTIES":
                return [*settings, name]
            return {**settings, "KV_CACHE_PRECISION": "u8"}[name]

    class Core:
        def compile_model(self, *_: Any) -> Compiled:
            return Compiled()

    module: Any = ModuleType("openvino")
    module.Core = Core
    monkeypatch.setitem(sys.modules, "openvino", module)
    with pytest.raises(CheckFailure, match=r"'KV_CACHE_PRECISION': 'f32'.*in force.*'u8'"):
        Model(Path("model.xml"), settings)
