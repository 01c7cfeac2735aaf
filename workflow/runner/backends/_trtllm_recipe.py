"""TensorRT-LLM's precisions, and the command lines that convert and build them.

Flags as in the converters and in commands/build.py of 0.12 and 1.x; each is looked up in the
program's own help before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.checks import CheckFailure
from runner.options import OptionError, match_recipe

LIBRARY = "tensorrt_llm"
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
CALIBRATION_SAMPLES = 512
FAMILIES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen", "qwen3": "qwen"}
"""`model_type` of config.json -> folder of the converter."""


def recipes() -> tuple[dict[str, Any], ...]:
    """Return every precision that an engine can be built in."""
    plain = [{"weights": f, "activations": f, "compute": f} for f in DTYPES]
    base = {"compute": "fp16", "library": LIBRARY}
    int8 = [
        {**base, "weights": "int8", "activations": "fp16"},
        {**base, "weights": "int8", "activations": "int8-smoothquant"},
    ]
    half = {**base, "weights": "fp16", "activations": "fp16"}
    kv8 = [{**recipe, "kv": "int8"} for recipe in [half, *int8]]
    fp8 = {**base, "weights": "fp8", "activations": "fp8", "kv": "fp8"}
    return (*plain, *int8, *kv8, fp8)


def split_recipe(recipe: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the recipe proper, and the SHA-256 of the texts that it is calibrated on.

    Raises OptionError for a recipe that is not listed, for one that needs texts and names none,
    and for texts that would have no effect.
    """
    calibration = recipe.get("calibration")
    known = match_recipe({k: v for k, v in recipe.items() if k != "calibration"}, recipes())
    if needs_calibration(known) != (calibration is not None):
        raise OptionError(
            f"cell.json: recipe: key 'calibration' is {calibration!r}; this precision "
            + ("needs the SHA-256 of its texts" if calibration is None else "uses no texts")
        )
    return known, calibration


def needs_calibration(recipe: Mapping[str, Any]) -> bool:
    """Whether ranges are measured on texts when the checkpoint is made."""
    return (
        recipe["activations"] in ("int8-smoothquant", "fp8")
        or recipe.get("kv", recipe["compute"]) == "int8"
    )


def quantization_of(recipe: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the `quantization` that the checkpoint's config.json must show."""
    if recipe["weights"] == "fp8":
        algorithm: str | None = "FP8"
    elif recipe["weights"] != "int8":
        algorithm = None
    elif recipe["activations"] == "int8-smoothquant":
        algorithm = "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN"
    else:
        algorithm = "W8A16"
    kv = recipe.get("kv")
    return {"quant_algo": algorithm, "kv_cache_quant_algo": kv.upper() if kv else None}


def converter_of(examples: Path, model_dir: Path, recipe: Mapping[str, Any]) -> Path:
    """Return the converter script of the model's family; raises CheckFailure where none is."""
    if recipe["weights"] == "fp8":
        places = ["quantization/quantize.py"]
    else:
        kind = json.loads((model_dir / "config.json").read_bytes()).get("model_type")
        if kind not in FAMILIES:
            raise CheckFailure(
                f"{model_dir / 'config.json'}: key 'model_type' is {kind!r}; a converter is known "
                f"for: {', '.join(sorted(FAMILIES))}"
            )
        family = FAMILIES[kind]
        places = [f"{p}{family}/convert_checkpoint.py" for p in ("", "models/core/")]
    for place in places:
        if (examples / place).is_file():
            return examples / place
    raise CheckFailure(
        f"{examples}: has none of {', '.join(places)}; option 'examples' names the folder "
        "examples of the TensorRT-LLM sources of the installed version"
    )


def convert_arguments(
    recipe: Mapping[str, Any], model_dir: Path, out: Path, calibration: Path | None
) -> list[str]:
    """Return the converter's arguments; the type is always given (1.x would choose its own)."""
    arguments = ["--model_dir", str(model_dir), "--output_dir", str(out)]
    arguments += ["--dtype", DTYPES[recipe["compute"]]]
    if recipe["weights"] == "fp8":
        arguments += ["--qformat", "fp8", "--kv_cache_dtype", "fp8"]
        arguments += ["--calib_size", str(CALIBRATION_SAMPLES)]
    elif recipe["activations"] == "int8-smoothquant":
        arguments += ["--smoothquant", "0.5", "--per_token", "--per_channel"]
    elif recipe["weights"] == "int8":
        arguments += ["--use_weight_only", "--weight_only_precision", "int8"]
    if recipe.get("kv") == "int8":
        arguments += ["--int8_kv_cache"]
    if calibration is not None:
        arguments += ["--calib_dataset", str(calibration)]
    return arguments


def build_arguments(
    recipe: Mapping[str, Any],
    checkpoint: Path,
    out: Path,
    max_seq_len: int,
    purposes: tuple[str, ...],
    timing_cache: Path | None,
) -> list[str]:
    """Return trtllm-build's arguments for an engine of batch 1 that serves these purposes."""
    plugin = "auto" if recipe["weights"] == "fp8" else DTYPES[recipe["compute"]]
    length = str(max_seq_len)
    arguments = ["--checkpoint_dir", str(checkpoint), "--output_dir", str(out)]
    arguments += ["--gemm_plugin", plugin, "--max_batch_size", "1"]
    arguments += ["--max_input_len", length, "--max_seq_len", length, "--max_num_tokens", length]
    if "scoring" in purposes:
        arguments += ["--gather_context_logits"]
    if "generation" in purposes:
        arguments += ["--gather_generation_logits"]
    arguments += ["--output_timing_cache", str(out / "model.cache")]
    arguments += ["--profiling_verbosity", "detailed"]
    if timing_cache is not None:
        arguments += ["--input_timing_cache", str(timing_cache)]
    return arguments


def flags_in(arguments: list[str]) -> list[str]:
    """Return the flags of an argument list."""
    return [argument for argument in arguments if argument.startswith("--")]
