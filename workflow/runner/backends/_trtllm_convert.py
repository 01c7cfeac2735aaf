"""Make a TensorRT-LLM checkpoint with the converters of its sources: on the device, or on the hub.

    python -m runner.backends._trtllm_convert --model DIR --recipe JSON --out DIR
        [--examples DIR] [--calibration FILE]

prints how it was made, as JSON. A checkpoint is of one version of TensorRT-LLM and serves every
device of that version; the engine built from it is of one device.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runner.backends._trtllm_recipe import (
    CALIBRATION_SAMPLES,
    convert_arguments,
    converter_of,
    flags_in,
    quantization_of,
    split_recipe,
)
from runner.checks import CheckFailure
from runner.contract import canonical_json, file_sha256, read_jsonl
from runner.runtime import require_flags

CHECKPOINT = "checkpoint"
"""Folder inside a model folder that holds a checkpoint made on the hub."""

Run = Callable[[list[str], list[str]], None]
"""Runs a program with arguments, all of whose flags its help must name."""


def convert_facts(
    model_dir: Path, recipe: Mapping[str, Any], examples: Path
) -> tuple[Path, dict[str, Any]]:
    """Return the converter, and what decides upon its output beside weights and version."""
    known, calibration = split_recipe(recipe)
    script = converter_of(examples, model_dir, known)
    return script, {
        "converter": script.as_posix(),
        "converter_sha256": file_sha256(script),
        "recipe": dict(known),
        "calibration_sha256": calibration,
    }


def convert_checkpoint(
    model_dir: Path,
    recipe: Mapping[str, Any],
    examples: Path,
    calibration: Path | None,
    scratch: Path,
    out: Path,
    run: Run,
) -> None:
    """Write the checkpoint into the folder `out`; texts for calibration go below `scratch`.

    Raises CheckFailure for texts, converters or a quantization that do not fit the recipe.
    """
    known, wanted = split_recipe(recipe)
    script = converter_of(examples, model_dir, known)
    texts = _write_texts(calibration, wanted, scratch)
    run([sys.executable, str(script)], convert_arguments(known, model_dir, out, texts))
    check_quantization(out, known)


def check_quantization(checkpoint: Path, recipe: Mapping[str, Any]) -> None:
    """Raise CheckFailure unless the checkpoint says that it is what the recipe asks for."""
    path = checkpoint / "config.json"
    found = json.loads(path.read_bytes()).get("quantization") or {}
    for key, wanted in quantization_of(recipe).items():
        if found.get(key) != wanted:
            raise CheckFailure(
                f"{path}: key 'quantization.{key}' is {found.get(key)!r}; the precision needs "
                f"{wanted!r}"
            )


def check_texts(calibration: Path | None, wanted: str | None) -> None:
    """Raise CheckFailure unless the texts are those that the recipe pins."""
    found = file_sha256(calibration) if calibration else "no file"
    if wanted is not None and found != wanted:
        raise CheckFailure(f"calibration texts: {found}; the recipe names {wanted}")


def _write_texts(calibration: Path | None, wanted: str | None, scratch: Path) -> Path | None:
    """Return the texts in the form that the converter reads offline.

    The converters know a local data set by a name inside its path, `lambada`: split
    `validation`, key `text`. They index their number of samples without looking, so that a
    shorter set is repeated; the ranges are maxima and do not change by it.
    """
    check_texts(calibration, wanted)
    if calibration is None or wanted is None:
        return None
    texts = [str(record["text"]) for record in read_jsonl(calibration)]
    folder = scratch / f"calibration-{wanted[:16]}" / "lambada"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"text": texts[n % len(texts)]} for n in range(max(CALIBRATION_SAMPLES, len(texts)))]
    lines = b"".join(canonical_json(row) + b"\n" for row in rows)
    (folder / "validation.jsonl").write_bytes(lines)
    return folder


def _run_here(program: list[str], arguments: list[str]) -> None:
    require_flags([*program, "--help"], flags_in(arguments))
    # What the converter prints is for people; the last line of stdout is ours.
    code = subprocess.run([*program, *arguments], stdout=sys.stderr, check=False).returncode
    if code != 0:
        raise CheckFailure(f"{program[-1]} ended with {code}")


def main() -> None:
    """Convert as the command line says; a refusal is one line on stderr and exit code 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--recipe", type=json.loads, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--examples", type=Path, default=Path("TensorRT-LLM/examples"))
    parser.add_argument("--calibration", type=Path)
    asked = parser.parse_args()
    try:
        _, facts = convert_facts(asked.model, asked.recipe, asked.examples)
        with tempfile.TemporaryDirectory() as scratch:
            convert_checkpoint(
                *(asked.model, asked.recipe, asked.examples, asked.calibration),
                *(Path(scratch), asked.out, _run_here),
            )
        version = importlib.metadata.version("tensorrt_llm")
    except (CheckFailure, ValueError, OSError, importlib.metadata.PackageNotFoundError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(json.dumps({**facts, "tensorrt_llm": version}))


if __name__ == "__main__":
    main()
