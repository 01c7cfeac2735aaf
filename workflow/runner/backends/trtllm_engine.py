"""TensorRT-LLM engines, built on the device: 0.12 (Executor bindings) and 1.x up to 1.2.1.

The generation is chosen by the installed version and recorded. Engines are made by
`runner.pyz build` before a run; this adapter only loads one that its record vouches for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from runner.backends._folder import read_folder
from runner.backends._trtllm import Engine, Engines, LogitsBackend
from runner.backends._trtllm_build import Builder
from runner.backends._trtllm_convert import CHECKPOINT
from runner.backends._trtllm_executor import ExecutorEngine, load_bindings
from runner.backends._trtllm_llm import LlmApi, LlmEngine
from runner.backends._trtllm_recipe import recipes, split_recipe
from runner.checks import CheckFailure
from runner.contract import CellSpec
from runner.engine import read_engine
from runner.journal import Log
from runner.options import Option, resolve_options
from runner.runtime import Runtime, satisfies

EXECUTOR = ">=0.12,<0.13"
LLM_API = ">=1.0,<=1.2.1"
ENGINE_MODULE = "tensorrt_llm._tensorrt_engine"


class Backend(LogitsBackend):
    """Runs a built engine; scoring and generation may use different engines of one checkpoint.

    `build` tells builds of one engine apart; `timing_cache` is `kept` where all builds of a
    device shall pick the same kernels, `own` where each build times its own.
    """

    OPTIONS: ClassVar[dict[str, Option]] = {
        "batch_size": Option(int, 1, (1,)),
        "build": Option(int, 0, minimum=0),
        "engines": Option(str, "one", ("one", "two")),
        "examples": Option(str, "TensorRT-LLM/examples"),
        "max_seq_len": Option(int, 2560, minimum=2),
        "timing_cache": Option(str, "kept", ("kept", "own")),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = recipes()
    RUNTIME: ClassVar[Runtime] = Runtime(
        package="tensorrt_llm",
        supported=">=0.12,<=1.2.1",
        tried="sources",
        tried_version="0.12, 1.2",
        note="engines exist up to 1.2.1; 0.13 to 0.21 are refused: neither generation's calls",
    )

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Check version, calls and engine; engines are loaded when first needed."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        self.recipe, _ = split_recipe(spec.recipe)
        self.version, self.generation = _generation()
        self.folder = read_folder(model_dir)
        engine_dir, self.record = read_engine(spec)
        if self.record["tensorrt_llm"] != self.version:
            raise CheckFailure(
                f"{engine_dir}: built with tensorrt_llm {self.record['tensorrt_llm']}, "
                f"{self.version} is installed; engines do not move between versions"
            )
        longest = int(self.options["max_seq_len"]) - 1
        self.window = self.folder.fit(longest)
        self.model_dir = model_dir
        self.api: Any = load_bindings() if self.generation == "executor" else LlmApi(ENGINE_MODULE)
        self.places = {
            purpose: engine_dir / name
            for name, part in self.record["parts"].items()
            for purpose in part["purposes"]
        }
        self.engines = Engines(self._open, same=self.options["engines"] == "one")

    @classmethod
    def build(
        cls,
        model_dir: Path,
        spec: CellSpec,
        checkpoint: Path | None,
        calibration: Path | None,
        log: Log,
    ) -> Path:
        """Build the cell's engine on this device and return its folder.

        `checkpoint`: one converted elsewhere; None takes the model folder's own, or converts here.
        """
        version, _ = _generation()
        options = resolve_options(spec.options, cls.OPTIONS)
        builder = Builder(spec, options, model_dir, version, log)
        own = model_dir / CHECKPOINT
        if checkpoint is None and own.is_dir():
            checkpoint = own
        builder.build(checkpoint, calibration)
        return builder.folder

    def describe(self) -> dict[str, Any]:
        """Return the generation, the options and the whole record of the engine."""
        return {
            "evidence": list(self.EVIDENCE),
            "token_ids": "as generated, a final end-of-text token included",
            "logits": "the engine's, cut to the model's vocabulary, log-softmax in fp32 here",
            "generation": self.generation,
            "tensorrt_llm": self.version,
            "options": self.options,
            "engine": self.record,
            "block_reuse": False,
            "repetition_penalty": self.folder.repetition_penalty,
            "window": self.window,
        }

    def _open(self, purpose: str) -> Engine:
        place = self.places[purpose]
        pad = self.folder.tokenizer.eos_token_id
        limit = int(self.options["max_seq_len"])
        penalty = self.folder.repetition_penalty
        if self.generation == "executor":
            return ExecutorEngine(self.api, place, limit, pad, penalty)
        return LlmEngine(
            self.api, place, self.model_dir, limit, pad, penalty, self.folder.tokenizer.decode
        )


def _generation() -> tuple[str, str]:
    """Return the installed version and `executor` or `llm`; raises CheckFailure for others."""
    version = Backend.RUNTIME.check()
    if satisfies(version, EXECUTOR):
        return version, "executor"
    if satisfies(version, LLM_API):
        return version, "llm"
    raise CheckFailure(
        f"tensorrt_llm {version} is installed; engines are run with {EXECUTOR} or {LLM_API}"
    )
