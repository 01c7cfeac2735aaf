"""PyTorch and transformers: scoring and generation on token ids, with evidence per token."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import torch

from runner.backends._evidence import FULL_EVIDENCE
from runner.backends._int8_selftest import check_int8_products
from runner.backends._torch_generate import generate_batch
from runner.backends._torch_model import (
    check_capability,
    digest_quantized,
    load_model,
    refuse_sliding_windows,
    set_threads,
)
from runner.backends._torch_score import score_independent, score_shared
from runner.backends._torch_switches import (
    SWITCHES,
    apply_switches,
    check_device,
    check_switches,
    describe_device,
)
from runner.contract import CellSpec, Request, Response
from runner.options import Option, OptionError, match_recipe, resolve_options
from runner.plan import plan_batches, plan_shared
from runner.runtime import Runtime


def _recipes() -> tuple[dict[str, Any], ...]:
    plain = [{"weights": f, "activations": f, "compute": f} for f in ("fp32", "bf16", "fp16")]
    int8 = {"weights": "int8", "library": "torchao"}
    weight_only = [{**int8, "activations": f, "compute": f} for f in ("fp32", "bf16")]
    dynamic = [{**int8, "activations": "int8-dynamic", "compute": f} for f in ("fp32", "bf16")]
    dequantized = [{**recipe, "weights": "int8-dequantized"} for recipe in weight_only]
    int4 = [{**recipe, "weights": "int4", "group": 32} for recipe in weight_only]
    return (*plain, *weight_only, *dynamic, *dequantized, *int4)


class Backend:
    """Runs any causal LM that transformers loads from a folder of safetensors."""

    RUNTIME: ClassVar[Runtime] = Runtime(
        "torch", ">=2.5,<2.14", "run", "2.13.0", "CPU only; CUDA and MPS have not been run"
    )
    OPTIONS: ClassVar[dict[str, Option]] = {
        "batch_size": Option(int, 1, minimum=1),
        "attention": Option(str, "sdpa", ("eager", "sdpa")),
        "padding_side": Option(str, None, ("left", "right")),
        "scoring": Option(str, "independent", ("independent", "shared")),
        "device": Option(str, "cpu", ("cpu", "cuda", "mps")),
        **SWITCHES,
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = _recipes()
    EVIDENCE: ClassVar[tuple[str, ...]] = FULL_EVIDENCE

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Load the model; raises OptionError or CheckFailure for what cannot be in force."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        self.recipe = match_recipe(spec.recipe, self.PRECISIONS)
        self.shared = self.options["scoring"] == "shared"
        self._refuse_ineffective()
        check_switches(self.options, self.recipe["compute"])
        self.RUNTIME.check()
        check_device(self.options["device"])
        apply_switches(self.options)
        set_threads(spec.threads)
        self.capability = check_capability()
        dynamic = self.recipe["activations"] == "int8-dynamic"
        self.self_test = check_int8_products() if dynamic and self._on_cpu() else None
        self.loaded = load_model(
            model_dir, self.recipe, self.options["attention"], self.options["device"]
        )
        if self.shared:
            refuse_sliding_windows(self.loaded)
        self.window: int | None = self.loaded.window

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        """Cut into batches; with shared scoring, by prompt."""
        cutter = plan_shared if self.shared else plan_batches
        return cutter(requests, self.options["batch_size"])

    @torch.inference_mode()
    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        """Score the continuations of one batch (rolling text always runs row by row)."""
        if self.shared and batch[0].kind == "loglikelihood":
            return score_shared(self.loaded, batch)
        side = self.options["padding_side"] or "right"
        return score_independent(self.loaded, batch, self.options["batch_size"], side)

    @torch.inference_mode()
    def generate(self, batch: list[Request]) -> list[Response]:
        """Generate for one batch, padded on the left."""
        return generate_batch(self.loaded, batch)

    def describe(self) -> dict[str, Any]:
        """Return the versions and settings really in force."""
        return {
            "evidence": list(self.EVIDENCE),
            "token_ids": "as generated, a final end-of-text token included",
            "options": self.options,
            "capability": self.capability,
            "self_test": self.self_test,
            "threads": torch.get_num_threads(),
            "onednn": bool(torch._C._has_mkldnn),
            "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA"),
            "mkl_enable_instructions": os.environ.get("MKL_ENABLE_INSTRUCTIONS"),
            "torch_config": torch.__config__.show(),
            "torch_git": torch.version.git_version,
            "model_class": type(self.loaded.model).__name__,
            "parameters": sum(p.numel() for p in self.loaded.model.parameters()),
            "attention": self.loaded.model.config._attn_implementation,
            "quantized_layers": len(self.loaded.quantized),
            "quantized_sha256": digest_quantized(self.loaded),
            "repetition_penalty": self.loaded.repetition_penalty,
            "window": self.window,
            **describe_device(self.options["device"]),
        }

    def _on_cpu(self) -> bool:
        return bool(self.options["device"] == "cpu")

    def _refuse_ineffective(self) -> None:
        """Refuse a padding side where nothing is padded by it: the cell would claim an effect."""
        if self.options["padding_side"] is None:
            return
        if self.shared:
            raise OptionError("cell.json: options: 'padding_side' has no effect on shared scoring")
        if self.options["batch_size"] == 1:
            raise OptionError("cell.json: options: 'padding_side' has no effect at batch_size 1")
