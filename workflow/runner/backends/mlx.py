"""MLX on Apple silicon, by mlx-lm's own model classes, one request at a time, with full logits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from runner.backends._cached_lm import CachedBackend
from runner.backends._folder import read_folder
from runner.checks import CheckFailure
from runner.contract import CellSpec
from runner.options import Option, OptionError, match_recipe, resolve_options
from runner.runtime import Runtime, require_parameters

KV_GROUP_SIZE = 64


def _recipes() -> tuple[dict[str, Any], ...]:
    plain = [{"weights": f, "activations": f, "compute": f} for f in ("fp32", "fp16", "bf16")]
    quantized = [
        {"weights": w, "activations": f, "compute": f, "library": "mlx"}
        for w in ("int8", "int4")
        for f in ("fp16", "bf16")
    ]
    return (*plain, *quantized)


class Backend(CachedBackend):
    """Runs a folder made by the converter `mlx`.

    Scoring never reads a quantized KV cache, so `kv_bits` has no effect there.
    """

    RUNTIME: ClassVar[Runtime] = Runtime(
        "mlx-lm",
        ">=0.31,<0.33",
        "run",
        "0.32.2",
        "MLX's CPU build on Linux (mlx 0.32.4); not on a Mac's GPU",
    )
    batch_size = 1
    """mlx-lm's models take no padding mask: rows of unequal length cannot share a pass."""

    OPTIONS: ClassVar[dict[str, Option]] = {
        "device": Option(str, "gpu", ("cpu", "gpu")),
        "kv_bits": Option(int, None, (4, 8)),
        "kv_group_size": Option(int, None, (32, 64, 128)),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = _recipes()

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Load the model; raises OptionError or CheckFailure for what cannot be in force."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        self.recipe = match_recipe(spec.recipe, self.PRECISIONS)
        if self.options["kv_group_size"] is not None and self.options["kv_bits"] is None:
            raise OptionError("cell.json: options: 'kv_group_size' has no effect without 'kv_bits'")
        self.version = self.RUNTIME.check()
        self.folder = read_folder(model_dir)
        self.engine = Model(model_dir, self.options, self.recipe)


class Model:
    """mlx-lm's model with its KV cache; the cache is quantized behind the prompt when asked."""

    padding: Literal["left", "right"] = "right"

    def __init__(self, folder: Path, options: dict[str, Any], recipe: dict[str, Any]) -> None:
        import mlx.core as mx
        from mlx_lm.models.cache import make_prompt_cache
        from mlx_lm.utils import load_model

        self.mx = mx
        self.make_cache = make_prompt_cache
        self.options = options
        require_parameters(load_model, ["lazy"], "mlx_lm.utils.load_model")
        self._choose_device()
        self.model, config = load_model(folder, lazy=False)
        bits = {"int8": 8, "int4": 4}.get(recipe["weights"])
        found = (config.get("quantization") or {}).get("bits")
        if found != bits:
            raise CheckFailure(f"{folder}: its weights have {found} bits, the recipe says {bits}")
        self.dtype = {"fp32": mx.float32, "fp16": mx.float16, "bf16": mx.bfloat16}[
            recipe["compute"]
        ]
        # The folder's type is the one it was converted to; a copy in another one would be silent.
        kinds = {str(v.dtype) for v in self._leaves() if mx.issubdtype(v.dtype, mx.floating)}
        if kinds != {str(self.dtype)}:
            raise CheckFailure(f"{folder}: holds {sorted(kinds)}, the recipe says {self.dtype}")
        self.cache: list[Any] = []

    def start(self, ids: Any, mask: Any, capacity: int) -> Any:
        """Forget the cache and run ids [1, T]; return logits [1, T, vocab]."""
        self.cache = self.make_cache(self.model)
        logits = self.step(ids, mask)
        if bits := self.options["kv_bits"]:
            # As mlx-lm does with quantized_kv_start 0; its default of 5000 would do nothing.
            size = self.options["kv_group_size"] or KV_GROUP_SIZE
            self.cache = [layer.to_quantized(group_size=size, bits=bits) for layer in self.cache]
        return logits

    def step(self, ids: Any, mask: Any) -> Any:
        """Run ids [1, T] behind what is in the cache; return logits [1, T, vocab]."""
        logits = self.model(self.mx.array(np.asarray(ids, dtype=np.int32)), cache=self.cache)
        return np.array(logits.astype(self.mx.float32))

    def describe(self) -> dict[str, Any]:
        """Return what MLX says of itself."""
        return {
            "mlx": self.mx.__version__,
            "device": str(self.mx.default_device()),
            "metal": bool(self.mx.metal.is_available()),
            "tf32": os.environ.get("MLX_ENABLE_TF32"),
            "kv_cache": type(self.cache[0]).__name__ if self.cache else None,
        }

    def _choose_device(self) -> None:
        on_gpu = self.options["device"] == "gpu"
        if on_gpu and not self.mx.metal.is_available():
            raise CheckFailure(
                "cell.json: options: 'device' is 'gpu', but this MLX has no Metal device"
            )
        if on_gpu and os.environ.get("MLX_ENABLE_TF32") != "0":
            raise CheckFailure(
                "environment: MLX_ENABLE_TF32 is not '0': fp32 products would be rounded to "
                "TF32; set it in the device's 'env'"
            )
        self.mx.set_default_device(self.mx.gpu if on_gpu else self.mx.cpu)

    def _leaves(self) -> list[Any]:
        from mlx.utils import tree_flatten

        return [value for _, value in tree_flatten(self.model.parameters())]
