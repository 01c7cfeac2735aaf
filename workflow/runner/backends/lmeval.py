"""Any model class that lm-eval knows, on the same token-id requests.

A way to run a backend that has no adapter of its own yet. lm-eval's interface returns a sum and a
flag (or a text), so there is no evidence per token, and `token_ids` stay unknown.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model

from runner.contract import CellSpec, Request, Response
from runner.options import Option, OptionError, match_recipe, resolve_options
from runner.plan import cut_windows, plan_batches
from runner.runtime import Runtime

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Backend:
    """Wraps one lm-eval model class; `model_args` go to its constructor unchanged.

    `path_arg` and `dtype_arg` name the constructor's arguments for the model folder and for the
    precision's type; an empty name passes none.
    """

    RUNTIME: ClassVar[Runtime] = Runtime(
        "lm_eval", ">=0.4.9,<0.5", "run", "0.4.13", "model class `hf`, greedy; sums and texts only"
    )
    OPTIONS: ClassVar[dict[str, Option]] = {
        "batch_size": Option(int, 1, minimum=1),
        "model": Option(str, "hf"),
        "model_args": Option(dict, {}),
        "path_arg": Option(str, "pretrained"),
        "dtype_arg": Option(str, "dtype"),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = tuple(
        {"weights": name, "activations": name, "compute": name} for name in DTYPES
    )
    EVIDENCE: ClassVar[tuple[str, ...]] = ()

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Build the model; raises OptionError for a class or an argument lm-eval does not have."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        self.RUNTIME.check()
        recipe = match_recipe(spec.recipe, self.PRECISIONS)
        name = self.options["model"]
        try:
            model_class: Any = get_model(name)
        except (ValueError, KeyError) as error:
            raise OptionError(f"cell.json: options: key 'model' is {name!r}: {error}") from error
        arguments = {**self.options["model_args"], "batch_size": self.options["batch_size"]}
        if self.options["path_arg"]:
            arguments[self.options["path_arg"]] = str(model_dir)
        if self.options["dtype_arg"]:
            arguments[self.options["dtype_arg"]] = DTYPES[recipe["compute"]]
        known = _constructor_arguments(model_class)
        if "softmax_dtype" in known:
            # The contract asks for a log-softmax in fp32; lm-eval's default is the model's type.
            arguments.setdefault("softmax_dtype", "float32")
        self.arguments = arguments
        self.model: Any = model_class(**arguments)
        self.window: int | None = getattr(self.model, "max_length", None)
        _fix_threads(spec.threads)

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        """Cut into batches in file order."""
        return plan_batches(requests, self.options["batch_size"])

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        """Score one batch; the windows of a rolling text are added up."""
        rows = [(r, row) for r in batch for row in cut_windows(r, self.window)]
        answers: Sequence[tuple[float, bool]] = self.model._loglikelihood_tokens(
            [(("", ""), context, text) for _, (context, text) in rows], disable_tqdm=True
        )
        sums = dict.fromkeys((r.request_id for r in batch), 0.0)
        greedy = dict.fromkeys(sums, True)
        for (request, _), (value, is_greedy) in zip(rows, answers, strict=True):
            sums[request.request_id] += float(value)
            greedy[request.request_id] &= bool(is_greedy)
        return [
            Response(key, "ok", loglikelihood=value, is_greedy=greedy[key])
            for key, value in sums.items()
        ]

    def generate(self, batch: list[Request]) -> list[Response]:
        """Generate text for one batch of requests with equal settings or one by one."""
        prompts = [self._decode(request) for request in batch]
        texts = self.model.generate_until(
            [
                Instance(
                    request_type="generate_until",
                    doc={},
                    arguments=(prompt, _settings(request)),
                    idx=index,
                )
                for index, (prompt, request) in enumerate(zip(prompts, batch, strict=True))
            ],
            disable_tqdm=True,
        )
        return [
            Response(request.request_id, "ok", text=str(text))
            for request, text in zip(batch, texts, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """Return the class, its arguments, and the evidence that it cannot give."""
        return {
            "evidence": [],
            "missing": "token_ids and all per-token evidence: lm-eval returns sums and texts",
            "options": self.options,
            "model_class": f"{type(self.model).__module__}.{type(self.model).__name__}",
            "model_args": {key: str(value) for key, value in self.arguments.items()},
            "window": self.window,
        }

    def _decode(self, request: Request) -> str:
        """Return the prompt as text; raises ValueError if its tokens do not come back.

        lm-eval generates from text only: the tokens must survive the way there and back.
        """
        if request.temperature != 0.0:
            raise ValueError("lm-eval's classes take no seed per request: greedy requests only")
        tokenizer = self.model.tokenizer
        text = str(tokenizer.decode(request.prompt_ids, skip_special_tokens=False))
        if list(self.model.tok_encode(text)) != request.prompt_ids:
            raise ValueError("the prompt's text encodes to other tokens than the request's")
        return text


def _settings(request: Request) -> dict[str, Any]:
    return {
        "until": list(request.until),
        "max_gen_toks": request.max_new_tokens,
        "do_sample": False,
    }


def _constructor_arguments(model_class: Any) -> set[str]:
    names: set[str] = set()
    for parent in model_class.__mro__:
        if "__init__" in vars(parent):
            names |= set(inspect.signature(parent.__init__).parameters)
    return names


def _fix_threads(threads: int) -> None:
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
