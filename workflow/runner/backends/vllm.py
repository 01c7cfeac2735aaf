"""vLLM by its LLM class: token ids in, log-probabilities of candidates out.

Written from the package's sources (entrypoints/llm.py, engine/arg_utils.py, sampling_params.py,
outputs.py); not run on a GPU.
"""

from __future__ import annotations

import os
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
INVARIANT = ("FLASH_ATTN", "TRITON_ATTN")
"""Batch invariance wants one of these by name (its batch_invariant.py)."""

ENGINE = (
    "attention_backend",
    "dtype",
    "enable_prefix_caching",
    "enforce_eager",
    "generation_config",
    "kv_cache_dtype",
    "logprobs_mode",
    "max_logprobs",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "quantization",
    "seed",
    "tensor_parallel_size",
    "tokenizer",
    "trust_remote_code",
)
SAMPLING = (
    "detokenize",
    "ignore_eos",
    "include_stop_str_in_output",
    "logprobs",
    "max_tokens",
    "prompt_logprobs",
    "repetition_penalty",
    "seed",
    "skip_special_tokens",
    "stop",
    "stop_token_ids",
    "temperature",
    "top_k",
    "top_p",
)


def _recipes() -> tuple[dict[str, Any], ...]:
    plain = [{"weights": f, "activations": f, "compute": f} for f in DTYPES]
    # Its int8 of load time (int8_per_channel_weight_only) leaves dense layers unquantized.
    fp8 = {"weights": "fp8", "activations": "fp8-dynamic", "compute": "bf16", "library": "vllm"}
    return (*plain, fp8)


class Backend(CandidatesBackend):
    """Runs a folder of safetensors; one request at a time, no prefix cache."""

    RUNTIME: ClassVar[Runtime] = Runtime(
        "vllm", ">=0.26,<0.34", "sources", "0.33", "log-softmax is vLLM's own; no logits come out"
    )
    OPTIONS: ClassVar[dict[str, Option]] = {
        "attention": Option(
            str, None, ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")
        ),
        "batch_invariant": Option(bool, False, (True, False)),
        "batch_size": Option(int, 1, (1,)),
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
        if self.options["batch_invariant"] and attention not in INVARIANT:
            raise OptionError(
                f"cell.json: options: key 'attention' is {attention!r} with 'batch_invariant'; "
                f"allowed: {', '.join(INVARIANT)}"
            )
        self.version = self.RUNTIME.check()
        self.folder = read_folder(model_dir)
        longest = self.folder.fit(int(self.options["max_seq_len"]))
        # A scored text goes in whole, and one more token is written behind it and dropped.
        self.window = longest - 2
        self.engine = Llm(model_dir, longest, self.options, recipe, self.folder.repetition_penalty)


class Llm:
    """One LLM object and the settings that are in force in it."""

    def __init__(
        self,
        model: Path,
        longest: int,
        options: dict[str, Any],
        recipe: dict[str, Any],
        penalty: float,
    ) -> None:
        # Read when vLLM is imported; scheduling in one process is the same in every run.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ["VLLM_BATCH_INVARIANT"] = str(int(options["batch_invariant"]))
        import vllm

        self.vllm: Any = vllm
        self.penalty = penalty
        arguments: dict[str, Any] = {
            "dtype": DTYPES[recipe["compute"]],
            "enable_prefix_caching": False,
            "enforce_eager": options["eager"],
            # Otherwise the folder's generation_config.json fills settings in.
            "generation_config": "vllm",
            "kv_cache_dtype": options["kv_cache"],
            "logprobs_mode": "raw_logprobs",
            "max_logprobs": TOP,
            "max_model_len": longest,
            # A text is computed in one chunk; the default depends on the GPU's memory.
            "max_num_batched_tokens": longest,
            "max_num_seqs": 1,
            "seed": 0,
            "tensor_parallel_size": options["tensor_parallel"],
            "trust_remote_code": False,
        }
        if "library" in recipe:
            # 'fp8' alone is for checkpoints that are fp8 already.
            arguments["quantization"] = "fp8_per_tensor"
        if options["attention"] is not None:
            arguments["attention_backend"] = options["attention"]
        require_parameters(vllm.EngineArgs, ENGINE, "vllm EngineArgs")
        require_parameters(vllm.SamplingParams, SAMPLING, "vllm SamplingParams")
        self.llm = vllm.LLM(model=str(model), tokenizer=str(model), **arguments)

    def score(self, ids: list[int]) -> list[Position]:
        """Return the positions of all tokens but the first."""
        answer = self._run(ids, max_tokens=1, temperature=0.0, prompt_logprobs=TOP)
        if answer.prompt_logprobs is None:
            return []
        return [as_position(entry) for entry in answer.prompt_logprobs if entry is not None]

    def write(self, request: Request, eos_ids: list[int]) -> tuple[list[int], list[Position]]:
        """Write with vLLM's sampler; what ended the text is kept in the ids."""
        settings: dict[str, Any] = {"temperature": request.temperature}
        if request.temperature != 0.0:
            settings |= {"top_p": request.top_p, "seed": draw_seed(request)}
            settings["top_k"] = request.top_k or -1
        answer = self._run(
            request.prompt_ids,
            max_tokens=request.max_new_tokens,
            logprobs=TOP,
            stop=list(request.until) or None,
            stop_token_ids=eos_ids,
            repetition_penalty=self.penalty,
            # Stop strings are found in the text.
            detokenize=bool(request.until),
            **settings,
        )
        output = answer.outputs[0]
        return list(output.token_ids), [as_position(entry) for entry in output.logprobs or ()]

    def _run(self, ids: list[int], **settings: Any) -> Any:
        params = self.vllm.SamplingParams(
            **{"detokenize": False, **settings},
            ignore_eos=True,
            include_stop_str_in_output=True,
            skip_special_tokens=False,
        )
        (answer,) = self.llm.generate([{"prompt_token_ids": ids}], params, use_tqdm=False)
        return answer


def as_position(entry: Any) -> Position:
    """Return the values of vLLM's {token id: Logprob}."""
    return {int(token): float(found.logprob) for token, found in entry.items()}
