"""OpenVINO on a CPU, on a stateful decoder as optimum-intel exports it, with full logits.

Its defaults compute in less than the model's type: every setting that can change a number comes
from the recipe, is set, and is read back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from runner.backends._cached_lm import CachedBackend
from runner.backends._folder import read_folder
from runner.checks import CheckFailure
from runner.contract import CellSpec
from runner.options import Option, match_recipe, resolve_options
from runner.runtime import Runtime

MODEL = "openvino_model.xml"
INPUTS = {"input_ids", "attention_mask", "position_ids", "beam_idx"}
TYPES = {"fp32": "f32", "bf16": "bf16", "u8": "u8"}
EXACT: dict[str, Any] = {"compute": "fp32", "kv_cache": "fp32", "dynamic_quantization": 0}
LOSSY: dict[str, Any] = {"compute": "bf16", "kv_cache": "u8", "dynamic_quantization": 32}
FP32 = {"weights": "fp32", "activations": "fp32", "compute": "fp32"}


class Backend(CachedBackend):
    """Runs a folder made by the converter `openvino`."""

    RUNTIME: ClassVar[Runtime] = Runtime("openvino", ">=2026.0,<2026.5", "run", "2026.4.1")
    OPTIONS: ClassVar[dict[str, Option]] = {"batch_size": Option(int, 1, minimum=1)}
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = (
        FP32,
        {"weights": "fp32", "activations": "bf16", "library": "openvino", **LOSSY},
        {"weights": "int8", "activations": "fp32", "library": "openvino", **EXACT},
        {"weights": "int8", "activations": "int8-dynamic", "library": "openvino", **LOSSY},
    )

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Compile the model; raises OptionError or CheckFailure for what cannot be in force."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        recipe = match_recipe(spec.recipe, self.PRECISIONS)
        self.version = self.RUNTIME.check()
        self.folder = read_folder(model_dir)
        self.batch_size = self.options["batch_size"]
        self.engine = Model(model_dir / MODEL, settings_of(recipe, spec.threads))


def settings_of(recipe: dict[str, Any], threads: int) -> dict[str, str]:
    """Return the properties, as text, that put a recipe in force; one stream, fixed threads."""
    wanted = {**EXACT, **recipe}
    exact = wanted["compute"] == "fp32"
    return {
        "INFERENCE_PRECISION_HINT": TYPES[wanted["compute"]],
        "KV_CACHE_PRECISION": TYPES[wanted["kv_cache"]],
        "KEY_CACHE_PRECISION": TYPES[wanted["kv_cache"]],
        "VALUE_CACHE_PRECISION": TYPES[wanted["kv_cache"]],
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": str(wanted["dynamic_quantization"]),
        "EXECUTION_MODE_HINT": "ACCURACY" if exact else "PERFORMANCE",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
    }


def as_text(value: Any) -> str:
    """Return a property's value as it is written in a configuration: types and modes by name."""
    if hasattr(value, "get_type_name"):
        return str(value.get_type_name())
    return str(getattr(value, "name", value))


class Model:
    """A compiled model whose KV cache is its own state; its rows are padded on the left."""

    padding: Literal["left", "right"] = "left"

    def __init__(self, path: Path, settings: dict[str, str]) -> None:
        import openvino

        self.settings = settings
        compiled = openvino.Core().compile_model(str(path), "CPU", settings)
        self.properties = {
            name: as_text(compiled.get_property(name))
            for name in compiled.get_property("SUPPORTED_PROPERTIES")
            if name != "SUPPORTED_PROPERTIES"
        }
        if wrong := {
            name: self.properties.get(name)
            for name, value in settings.items()
            if self.properties.get(name) != value
        }:
            raise CheckFailure(
                f"{path}: asked for { ({name: settings[name] for name in wrong}) }, "
                f"in force on this CPU: {wrong}"
            )
        found = {port.any_name for port in compiled.inputs}
        if found != INPUTS:
            raise CheckFailure(
                f"{path}: the model's inputs are {', '.join(sorted(found))}; "
                f"this backend gives {', '.join(sorted(INPUTS))}"
            )
        self.request = compiled.create_infer_request()

    def start(self, ids: Any, mask: Any, capacity: int) -> Any:
        """Forget the cache and run ids [B, T]; return logits [B, T, vocab]."""
        self.request.reset_state()
        return self.step(ids, mask)

    def step(self, ids: Any, mask: Any) -> Any:
        """Run ids [B, T] behind what is in the cache; return logits [B, T, vocab]."""
        positions = (mask.cumsum(axis=1) - 1).clip(min=0)[:, -ids.shape[1] :]
        self.request.infer(
            {
                "input_ids": ids,
                "attention_mask": mask,
                "position_ids": np.ascontiguousarray(positions),
                "beam_idx": np.arange(len(ids), dtype=np.int32),
            }
        )
        logits = self.request.get_tensor("logits").data
        if logits.shape[:2] != ids.shape:
            # A bf16 model under an AVX2 cap computes nothing, and says nothing.
            raise RuntimeError(f"OpenVINO returned logits {logits.shape} for ids {ids.shape}")
        return logits

    def describe(self) -> dict[str, Any]:
        """Return what was asked for and what is in force."""
        return {"asked": self.settings, "properties": self.properties}
