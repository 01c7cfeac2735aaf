"""ONNX Runtime on a decoder graph as onnxruntime-genai's builder writes it, with full logits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from runner.backends._cached_lm import CachedBackend
from runner.backends._folder import read_folder
from runner.checks import CheckFailure
from runner.contract import CellSpec
from runner.options import Option, OptionError, match_recipe, resolve_options
from runner.runtime import Runtime

SETTINGS = "genai_config.json"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
INPUTS = {"input_ids", "attention_mask"}


def _recipes() -> tuple[dict[str, Any], ...]:
    plain = [{"weights": f, "activations": f, "compute": f} for f in ("fp32", "fp16")]
    quantized = [
        {"weights": w, "activations": a, "compute": "fp32", "library": "onnxruntime"}
        for w in ("int8", "int4")
        for a in ("fp32", "int8-dynamic")
    ]
    return (*plain, *quantized)


class Backend(CachedBackend):
    """Runs a folder made by the converter `onnx`: a graph and its genai_config.json."""

    RUNTIME: ClassVar[Runtime] = Runtime(
        "onnxruntime",
        ">=1.20,<1.33",
        "run",
        "1.32.0",
        "CPU only; the CUDA provider (onnxruntime-gpu) is written from the documentation",
    )
    OPTIONS: ClassVar[dict[str, Option]] = {
        "batch_size": Option(int, 1, minimum=1),
        "graph_optimization": Option(str, "all", tuple(LEVELS)),
        "device": Option(str, "cpu", tuple(PROVIDERS)),
        "deterministic": Option(bool, None, (True, False)),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = _recipes()

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Load the graph; raises OptionError or CheckFailure for what cannot be in force."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        recipe = match_recipe(spec.recipe, self.PRECISIONS)
        on_cpu = self.options["device"] == "cpu"
        if on_cpu and self.options["deterministic"] is not None:
            raise OptionError("cell.json: options: 'deterministic' has no effect on device 'cpu'")
        if on_cpu and recipe["compute"] == "fp16":
            raise OptionError("cell.json: recipe: fp16 graphs do not run on device 'cpu'")
        package = "onnxruntime" if on_cpu else "onnxruntime-gpu"
        self.version = dataclasses.replace(self.RUNTIME, package=package).check()
        self.folder = read_folder(model_dir)
        self.batch_size = self.options["batch_size"]
        self.engine = Graph(model_dir, self.options, spec.threads)


class Graph:
    """A session, and the KV cache of the text in it: one buffer a layer, written in place.

    The graph's attention (GroupQueryAttention) counts a row's positions from its mask and packs
    a row's keys from its start on: rows are padded on the right.
    """

    padding: Literal["left", "right"] = "right"

    def __init__(self, folder: Path, options: dict[str, Any], threads: int) -> None:
        import onnxruntime as ort

        self.ort = ort
        decoder = json.loads((folder / SETTINGS).read_bytes())["model"]["decoder"]
        # The graph leaves this dimension open.
        self.head_size = int(decoder["head_size"])
        path = folder / decoder["filename"]
        self.device = options["device"]
        provider = PROVIDERS[self.device]
        if provider not in ort.get_available_providers():
            raise CheckFailure(
                f"cell.json: options: 'device' is {self.device!r}, but this onnxruntime has only "
                f"{', '.join(ort.get_available_providers())}"
            )
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        level = LEVELS[options["graph_optimization"]]
        settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        settings.use_deterministic_compute = bool(options["deterministic"])
        self.session = ort.InferenceSession(str(path), settings, providers=[provider])
        if self.session.get_providers()[0] != provider:
            raise CheckFailure(f"{path}: runs on {self.session.get_providers()}, not {provider}")
        inputs = {node.name: node for node in self.session.get_inputs()}
        self.pasts = {name: node for name, node in inputs.items() if name.startswith("past_")}
        if set(inputs) - set(self.pasts) != INPUTS or not self.pasts:
            raise CheckFailure(
                f"{path}: the graph's inputs are {', '.join(inputs)}; this backend gives "
                f"{', '.join(sorted(INPUTS))} and past_key_values.*"
            )
        self.binding = self.session.io_binding()

    def start(self, ids: Any, mask: Any, capacity: int) -> Any:
        """Make a cache of `capacity` positions and run ids [B, T]; return logits [B, T, vocab]."""
        self.binding = self.session.io_binding()
        self.binding.bind_output("logits")
        for name, node in self.pasts.items():
            shape = (len(ids), node.shape[1], capacity, self.head_size)
            empty = np.zeros(shape, dtype=TYPES[node.type])
            buffer = self.ort.OrtValue.ortvalue_from_numpy(empty, self.device, 0)
            # The same buffer in and out: new keys are written behind the old ones.
            self.binding.bind_ortvalue_input(name, buffer)
            self.binding.bind_ortvalue_output(name.replace("past_key_values", "present"), buffer)
        return self.step(ids, mask)

    def step(self, ids: Any, mask: Any) -> Any:
        """Run ids [B, T] behind what is in the cache; return logits [B, T, vocab]."""
        self.binding.bind_cpu_input("input_ids", ids)
        self.binding.bind_cpu_input("attention_mask", mask)
        # Bound anew, because its shape changes.
        self.binding.bind_output("logits")
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[0].numpy()

    def describe(self) -> dict[str, Any]:
        """Return what the session says of itself."""
        settings = self.session.get_session_options()
        return {
            "providers": self.session.get_providers(),
            "provider_options": self.session.get_provider_options(),
            "threads": settings.intra_op_num_threads,
            "graph_optimization_level": str(settings.graph_optimization_level),
            "deterministic_compute": settings.use_deterministic_compute,
            "build": self.ort.get_build_info(),
            "layers": len(self.pasts) // 2,
        }
