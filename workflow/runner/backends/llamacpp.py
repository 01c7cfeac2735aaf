"""llama.cpp on a GGUF file, through the low-level calls of llama-cpp-python: ids in, logits out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from runner.backends._evidence import FULL_EVIDENCE
from runner.backends._folder import read_folder
from runner.backends._llama_context import KV_TYPES, Context
from runner.backends._numpy_evidence import Evidence, choose, penalize
from runner.backends._writing import Writing, draw_seed
from runner.checks import CheckFailure
from runner.contract import CellSpec, Request, Response
from runner.options import Option, OptionError, match_recipe, resolve_options
from runner.plan import cut_windows, plan_batches
from runner.runtime import Runtime

FILE = "model.gguf"
FILE_TYPES = {
    "fp32": "0",
    "fp16": "1",
    "q4_0": "2",
    "q8_0": "7",
    "q4_k_m": "15",
    "q5_k_m": "17",
    "q6_k": "18",
    "bf16": "32",
}
"""general.file_type of the GGUF by the recipe's weights."""

DEFAULT_BATCH = 512


def _recipes() -> tuple[dict[str, Any], ...]:
    plain = {"weights": "fp32", "activations": "fp32", "compute": "fp32"}
    own = [
        {"weights": w, "kv_cache": kv, "library": "llama.cpp"}
        for w in FILE_TYPES
        for kv in KV_TYPES
        if (w, kv) != ("fp32", "fp32")
    ]
    return (plain, *own)


class Backend:
    """Runs a folder made by the converter `gguf`, one sequence at a time.

    A recipe names the GGUF's type and the KV cache's; plain fp32 has both in fp32.
    """

    RUNTIME: ClassVar[Runtime] = Runtime(
        "llama-cpp-python", ">=0.3.36,<0.4", "run", "0.3.36", "CPU only; built for the host's CPU"
    )
    OPTIONS: ClassVar[dict[str, Option]] = {
        "n_ctx": Option(int, None, minimum=2),
        "n_batch": Option(int, None, minimum=1),
        "n_ubatch": Option(int, None, minimum=1),
        "flash_attention": Option(bool, False, (True, False)),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = _recipes()
    EVIDENCE: ClassVar[tuple[str, ...]] = FULL_EVIDENCE

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Load the file; raises OptionError or CheckFailure for what cannot be in force."""
        options = resolve_options(spec.options, self.OPTIONS)
        recipe = match_recipe(spec.recipe, self.PRECISIONS)
        kv_type = recipe.get("kv_cache", "fp32")
        if kv_type.startswith("q") and not options["flash_attention"]:
            raise OptionError(
                f"cell.json: recipe: key 'kv_cache' is {kv_type!r}, which needs "
                "option 'flash_attention': true"
            )
        self.version = self.RUNTIME.check()
        self.folder = read_folder(model_dir)
        self.window: int | None = _window(self.folder.window, options["n_ctx"])
        self.options = _fill_batches(options, self.window)
        self.context = Context(
            model_dir / FILE,
            kv_type=kv_type,
            n_ctx=self.window,
            n_batch=self.options["n_batch"],
            n_ubatch=self.options["n_ubatch"],
            flash_attention=self.options["flash_attention"],
            threads=spec.threads,
        )
        found = self.context.meta("general.file_type")
        if found != FILE_TYPES[recipe["weights"]]:
            raise CheckFailure(
                f"{model_dir / FILE}: general.file_type is {found}; weights "
                f"{recipe['weights']!r} are {FILE_TYPES[recipe['weights']]}"
            )
        if self.context.n_vocab != self.folder.vocab:
            raise CheckFailure(
                f"{model_dir / FILE}: {self.context.n_vocab} tokens; config.json has "
                f"{self.folder.vocab}"
            )

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        """One request a batch, kind by kind, in file order."""
        return plan_batches(requests, 1)

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        """Score every (prompt, continuation) in full."""
        return [self._score(request) for request in batch]

    def generate(self, batch: list[Request]) -> list[Response]:
        """Generate for one request after the other."""
        return [self._write(request) for request in batch]

    def _score(self, request: Request) -> Response:
        evidence = Evidence()
        for context, text in cut_windows(request, self.window):
            self.context.clear()
            done = 0
            for logits in self.context.feed((context + text)[:-1], len(text)):
                evidence.add(logits, text[done : done + len(logits)])
                done += len(logits)
        return evidence.score(request)

    def _write(self, request: Request) -> Response:
        folder = self.folder
        writing = Writing(request, folder.tokenizer, folder.eos_ids, self.window)
        evidence = Evidence()
        generator = np.random.default_rng(draw_seed(request))
        self.context.clear()
        new = request.prompt_ids
        while writing.finish is None:
            (logits,) = self.context.feed(new, 1)
            history = request.prompt_ids + writing.ids
            scores = penalize(logits[0], history, folder.repetition_penalty)
            token = choose(scores, request, generator)
            evidence.add(logits, [token])
            writing.extend(token)
            new = [token]
        return writing.answer(evidence.fields())

    def describe(self) -> dict[str, Any]:
        """Return the versions and settings really in force."""
        return {
            "evidence": list(self.EVIDENCE),
            "token_ids": "as generated, a final end-of-text token included",
            "options": self.options,
            "version": self.version,
            "window": self.window,
            **self.context.describe(),
        }


def _window(model: int | None, asked: int | None) -> int:
    if model is None and asked is None:
        raise OptionError("cell.json: options: 'n_ctx' is needed: config.json names no window")
    if model is not None and asked is not None and asked > model:
        raise OptionError(
            f"cell.json: options: 'n_ctx' is {asked}; the model has {model} positions"
        )
    return asked or model or 0


def _fill_batches(options: dict[str, Any], window: int) -> dict[str, Any]:
    """Fill n_batch and n_ubatch in; llama.cpp would silently lower what does not fit."""
    n_batch = options["n_batch"] or min(DEFAULT_BATCH, window)
    n_ubatch = options["n_ubatch"] or n_batch
    for name, value, limit, what in (
        ("n_batch", n_batch, window, "the window"),
        ("n_ubatch", n_ubatch, n_batch, "'n_batch'"),
    ):
        if value > limit:
            raise OptionError(
                f"cell.json: options: {name!r} is {value}, above {what} of {limit}: no effect"
            )
    return {**options, "n_ctx": window, "n_batch": n_batch, "n_ubatch": n_ubatch}
