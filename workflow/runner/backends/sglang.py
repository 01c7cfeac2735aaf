"""SGLang by its Engine class: token ids in, log-probabilities of candidates out.

Written from the package's sources (srt/entrypoints/engine.py, srt/server_args.py,
srt/managers/tokenizer_manager.py); not run on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from runner.backends._candidates import CandidatesBackend, Position
from runner.backends._evidence import TOP
from runner.backends._folder import read_folder
from runner.backends._writing import draw_seed
from runner.contract import CellSpec, Request
from runner.options import Option, OptionError, match_recipe, resolve_options
from runner.runtime import Runtime, require_parameters

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
DETERMINISTIC = ("fa3", "flashinfer", "triton")
"""The attention backends that deterministic inference allows (srt/server_args.py)."""

SERVER = (
    "attention_backend",
    "chunked_prefill_size",
    "context_length",
    "disable_cuda_graph",
    "disable_radix_cache",
    "dtype",
    "enable_deterministic_inference",
    "kv_cache_dtype",
    "max_running_requests",
    "model_path",
    "quantization",
    "random_seed",
    "sampling_defaults",
    "tokenizer_path",
    "tp_size",
    "trust_remote_code",
)
SAMPLING = (
    "ignore_eos",
    "max_new_tokens",
    "no_stop_trim",
    "repetition_penalty",
    "sampling_seed",
    "skip_special_tokens",
    "stop",
    "stop_token_ids",
    "temperature",
    "top_k",
    "top_p",
)
GENERATE = (
    "sampling_params",
    "input_ids",
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
)


def _recipes() -> tuple[dict[str, Any], ...]:
    plain = [{"weights": f, "activations": f, "compute": f} for f in DTYPES]
    fp8 = {"weights": "fp8", "activations": "fp8-dynamic", "compute": "bf16", "library": "sglang"}
    return (*plain, fp8)


class Backend(CandidatesBackend):
    """Runs a folder of safetensors; one request at a time, no radix cache."""

    RUNTIME: ClassVar[Runtime] = Runtime(
        "sglang",
        ">=0.5.3,<0.6",
        "sources",
        "0.5",
        "log-softmax is SGLang's own; no logits come out",
    )
    OPTIONS: ClassVar[dict[str, Option]] = {
        "attention": Option(str, None, ("fa3", "flashinfer", "triton", "torch_native")),
        "batch_size": Option(int, 1, (1,)),
        "deterministic": Option(bool, False, (True, False)),
        "eager": Option(bool, True, (True, False)),
        "kv_cache": Option(str, "auto", ("auto", "fp8_e4m3", "fp8_e5m2")),
        "max_seq_len": Option(int, 2560, minimum=2),
        "tensor_parallel": Option(int, 1, minimum=1),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = _recipes()

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Check version and calls, then load; raises OptionError or CheckFailure."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        recipe = match_recipe(spec.recipe, self.PRECISIONS)
        attention = self.options["attention"]
        if self.options["deterministic"] and attention not in (None, *DETERMINISTIC):
            raise OptionError(
                f"cell.json: options: key 'attention' is {attention!r} with 'deterministic'; "
                f"allowed: {', '.join(DETERMINISTIC)}"
            )
        self.version = self.RUNTIME.check()
        self.folder = read_folder(model_dir)
        longest = self.folder.fit(int(self.options["max_seq_len"]))
        # A scored text goes in whole, and one more token is written behind it and dropped.
        self.window = longest - 2
        self.engine = Srt(model_dir, longest, self.options, recipe, self.folder.repetition_penalty)


class Srt:
    """One Engine object and the settings that are in force in it."""

    def __init__(
        self,
        model: Path,
        longest: int,
        options: dict[str, Any],
        recipe: dict[str, Any],
        penalty: float,
    ) -> None:
        import sglang
        from sglang.srt.sampling.sampling_params import SamplingParams
        from sglang.srt.server_args import ServerArgs

        self.penalty = penalty
        self.deterministic = bool(options["deterministic"])
        arguments: dict[str, Any] = {
            # A text is computed in one chunk; the default depends on the GPU's memory.
            "chunked_prefill_size": -1,
            "context_length": longest,
            "disable_cuda_graph": options["eager"],
            "disable_radix_cache": True,
            "dtype": DTYPES[recipe["compute"]],
            "enable_deterministic_inference": self.deterministic,
            "kv_cache_dtype": options["kv_cache"],
            "max_running_requests": 1,
            "model_path": str(model),
            "random_seed": 0,
            # Otherwise the folder's generation_config.json fills settings in.
            "sampling_defaults": "openai",
            "tokenizer_path": str(model),
            "tp_size": options["tensor_parallel"],
            "trust_remote_code": False,
        }
        if "library" in recipe:
            arguments["quantization"] = recipe["weights"]
        if options["attention"] is not None:
            arguments["attention_backend"] = options["attention"]
        require_parameters(ServerArgs, SERVER, "sglang ServerArgs")
        require_parameters(SamplingParams, SAMPLING, "sglang SamplingParams")
        require_parameters(sglang.Engine.generate, GENERATE, "sglang Engine.generate")
        self.engine: Any = sglang.Engine(**arguments)

    def score(self, ids: list[int]) -> list[Position]:
        """Return the positions of all tokens but the first, which nothing scores."""
        meta = self._run(ids, {"max_new_tokens": 1, "temperature": 0.0}, first=0)["meta_info"]
        return as_positions(meta["input_token_logprobs"], meta["input_top_logprobs"])[1:]

    def write(self, request: Request, eos_ids: list[int]) -> tuple[list[int], list[Position]]:
        """Write with SGLang's sampler; what ended the text is kept in the ids."""
        settings: dict[str, Any] = {
            "max_new_tokens": request.max_new_tokens,
            "repetition_penalty": self.penalty,
            "stop": list(request.until),
            "stop_token_ids": eos_ids,
            "temperature": request.temperature,
        }
        if request.temperature != 0.0:
            if not self.deterministic:
                raise ValueError("SGLang obeys a request's seed with option 'deterministic' only")
            settings |= {"top_p": request.top_p, "sampling_seed": draw_seed(request) % 2**31}
            settings["top_k"] = request.top_k or -1
        answer = self._run(request.prompt_ids, settings, first=-1)
        meta = answer["meta_info"]
        positions = as_positions(meta["output_token_logprobs"], meta["output_top_logprobs"])
        return list(answer["output_ids"]), positions

    def _run(self, ids: list[int], settings: dict[str, Any], first: int) -> Any:
        """Ask for log-probabilities from prompt position `first` on; -1: of new tokens alone."""
        return self.engine.generate(
            input_ids=ids,
            sampling_params={
                **settings,
                "ignore_eos": True,
                "no_stop_trim": True,
                "skip_special_tokens": False,
            },
            return_logprob=True,
            logprob_start_len=first,
            top_logprobs_num=TOP,
        )


def as_positions(own: Sequence[Any], best: Sequence[Any]) -> list[Position]:
    """Join SGLang's two lists: (value, id, text) of each token, and of its best candidates.

    Where nothing was measured the value is None, and the position is empty.
    """
    found: list[Position] = []
    for (value, token, _), candidates in zip(own, best, strict=True):
        entries = [(value, token), *((v, one) for v, one, _ in candidates or ())]
        found.append({int(one): float(v) for v, one in entries if v is not None})
    return found
