"""Building an engine with stand-in programs: commands, record, timing cache, calibration."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import make_spec
from tests.contract.trtllm_stub import EXAMPLES, inside, stub_runtime

from runner.backends._trtllm_recipe import convert_arguments, quantization_of, recipes, split_recipe
from runner.backends.trtllm_engine import Backend
from runner.checks import CheckFailure
from runner.contract import CellSpec, digest, file_sha256
from runner.engine import engine_key, read_engine
from runner.options import OptionError

FP16 = {"weights": "fp16", "activations": "fp16", "compute": "fp16"}
SMOOTHQUANT = {
    "weights": "int8",
    "activations": "int8-smoothquant",
    "compute": "fp16",
    "library": "tensorrt_llm",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


def build(
    tmp_path: Path,
    model: Path,
    recipe: dict[str, Any] = FP16,
    checkpoint: Path | None = None,
    calibration: Path | None = None,
    **options: Any,
) -> tuple[CellSpec, Path, dict[str, Any]]:
    """Build in `tmp_path` on the stand-in of 0.12; return spec, folder and record."""
    spec = make_spec("trtllm_engine", {"examples": str(EXAMPLES), **options}, recipe)
    files = {"config.json": file_sha256(model / "config.json")}
    spec = replace(spec, files=files)
    with stub_runtime("trtllm_0_12"), inside(tmp_path):
        folder = Backend.build(model, spec, checkpoint, calibration, print)
        found, record = read_engine(spec)
    assert found == folder
    return spec, tmp_path / folder, record


def test_the_record_says_what_was_built_from_what_and_how(tmp_path: Path, model: Path) -> None:
    spec, folder, record = build(tmp_path, model)
    assert record["key"] == engine_key(spec)
    assert record["weights_digest"] == digest(spec.files)
    assert record["tensorrt_llm"] == "0.12.0"
    assert record["quantization"] == {"quant_algo": None, "kv_cache_quant_algo": None}
    script = EXAMPLES / "llama/convert_checkpoint.py"
    assert record["checkpoint"]["converter_sha256"] == file_sha256(script)
    part = record["parts"]["both"]
    assert part["engine_sha256"]["rank0.engine"] == file_sha256(folder / "both/rank0.engine")
    assert part["timing_cache_out_sha256"] == file_sha256(folder / "both/model.cache")
    assert {"--gather_context_logits", "--gather_generation_logits"} <= set(part["flags"])
    built = json.loads((folder / "both/config.json").read_text())["build_config"]
    assert built["gemm_plugin"] == "float16"
    assert (built["max_batch_size"], built["max_seq_len"]) == (1, 2560)
    assert "--dtype" in record["commands"][0]


def test_two_engines_serve_one_purpose_each(tmp_path: Path, model: Path) -> None:
    _, folder, record = build(tmp_path, model, engines="two")
    assert {n: p["purposes"] for n, p in record["parts"].items()} == {
        "scoring": ["scoring"],
        "generation": ["generation"],
    }
    gathers = {
        name: json.loads((folder / name / "config.json").read_text())["build_config"]
        for name in record["parts"]
    }
    assert gathers["scoring"]["gather_context_logits"]
    assert not gathers["scoring"]["gather_generation_logits"]
    assert gathers["generation"]["gather_generation_logits"]
    assert not gathers["generation"]["gather_context_logits"]


def test_builds_are_engines_of_their_own_from_one_checkpoint(tmp_path: Path, model: Path) -> None:
    (_, one, first), (_, two, second) = (
        build(tmp_path, model, build=n, timing_cache="own") for n in (0, 1)
    )
    assert one != two
    assert first["checkpoint"] == second["checkpoint"]
    assert len(first["commands"]) == 2
    assert len(second["commands"]) == 1, "the checkpoint is not converted again"
    engines = [r["parts"]["both"]["engine_sha256"] for r in (first, second)]
    assert engines[0] != engines[1], "each build timed its own kernels"


def test_a_kept_timing_cache_serves_the_next_build(tmp_path: Path, model: Path) -> None:
    (_, _, first), (_, _, second) = (build(tmp_path, model, build=n) for n in (0, 1))
    a, b = first["parts"]["both"], second["parts"]["both"]
    assert a["timing_cache_in_sha256"] is None
    assert b["timing_cache_in_sha256"] == a["timing_cache_out_sha256"]
    assert a["engine_sha256"] == b["engine_sha256"]


def test_a_finished_engine_is_not_built_again(tmp_path: Path, model: Path) -> None:
    _, _, first = build(tmp_path, model)
    _, _, again = build(tmp_path, model)
    assert first == again


def test_an_interrupted_build_starts_over(tmp_path: Path, model: Path) -> None:
    _, folder, _ = build(tmp_path, model)
    (folder / "engine.json").unlink()
    (folder / "both/leftover").write_text("half")
    build(tmp_path, model)
    assert not (folder / "both/leftover").exists()


def test_smoothquant_is_calibrated_on_the_pinned_texts_only(tmp_path: Path, model: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text":"one"}\n{"text":"two"}\n')
    recipe = {**SMOOTHQUANT, "calibration": file_sha256(texts)}
    _, _, record = build(tmp_path, model, recipe, calibration=texts)
    assert record["calibration_sha256"] == file_sha256(texts)
    assert record["quantization"]["quant_algo"] == "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN"
    given = Path(record["commands"][0][record["commands"][0].index("--calib_dataset") + 1])
    rows = (tmp_path / given / "validation.jsonl").read_text().splitlines()
    assert [json.loads(row)["text"] for row in rows[:3]] == ["one", "two", "one"]
    texts.write_text('{"text":"other"}\n')
    with pytest.raises(CheckFailure, match="calibration texts"):
        build(tmp_path, model, recipe, calibration=texts, build=1)
    with pytest.raises(CheckFailure, match="no file"):
        build(tmp_path, model, recipe, build=1)


def test_a_recipe_names_its_texts_if_and_only_if_it_needs_them() -> None:
    with pytest.raises(OptionError, match="needs the SHA-256"):
        split_recipe(SMOOTHQUANT)
    with pytest.raises(OptionError, match="uses no texts"):
        split_recipe({**FP16, "calibration": "0" * 64})


def test_a_checkpoint_of_another_precision_is_refused(tmp_path: Path, model: Path) -> None:
    checkpoint = tmp_path / "elsewhere"
    checkpoint.mkdir()
    facts = {"quantization": {"quant_algo": "W8A16"}, "model_dir": str(model)}
    (checkpoint / "config.json").write_text(json.dumps(facts))
    with pytest.raises(CheckFailure, match=r"quantization\.quant_algo.*'W8A16'.*needs None"):
        build(tmp_path, model, checkpoint=checkpoint)


def test_a_changed_engine_is_refused(tmp_path: Path, model: Path) -> None:
    spec, folder, _ = build(tmp_path, model)
    (folder / "both/rank0.engine").write_text("other")
    with inside(tmp_path), pytest.raises(CheckFailure, match=r"rank0\.engine: changed"):
        read_engine(spec)


def test_a_missing_engine_is_refused_by_name(tmp_path: Path) -> None:
    with inside(tmp_path), pytest.raises(CheckFailure, match="rule build_engine makes it"):
        read_engine(make_spec("trtllm_engine", {}, FP16))


def test_a_flag_that_the_program_does_not_know_stops_the_build(tmp_path: Path, model: Path) -> None:
    (tmp_path / "old/llama").mkdir(parents=True)
    script = tmp_path / "old/llama/convert_checkpoint.py"
    script.write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    with pytest.raises(CheckFailure, match="does not know --model_dir"):
        build(tmp_path, model, examples=str(tmp_path / "old"))


def test_a_program_that_fails_is_told_with_the_end_of_its_log(tmp_path: Path, model: Path) -> None:
    (tmp_path / "bad/llama").mkdir(parents=True)
    source = (EXAMPLES / "llama/convert_checkpoint.py").read_text()
    (tmp_path / "bad/llama/convert_checkpoint.py").write_text(
        source.replace("algorithm = None", "raise SystemExit('out of memory')", 1)
    )
    with pytest.raises(RuntimeError, match="ended with 1:\nout of memory"):
        build(tmp_path, model, examples=str(tmp_path / "bad"))


def test_an_unknown_family_is_refused(tmp_path: Path, model: Path) -> None:
    (model / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(CheckFailure, match=r"'mamba'.*llama, mistral, qwen2"):
        build(tmp_path, model)


@pytest.mark.parametrize("recipe", recipes(), ids=str)
def test_every_recipe_has_its_flags_and_its_quantization(recipe: dict[str, Any]) -> None:
    flags = convert_arguments(recipe, Path("m"), Path("c"), None)
    algorithm = quantization_of(recipe)["quant_algo"]
    assert "--dtype" in flags
    assert ("--use_weight_only" in flags) == (algorithm == "W8A16")
    assert ("--smoothquant" in flags) == (algorithm or "").startswith("W8A8_SQ")
    assert ("--qformat" in flags) == (algorithm == "FP8")
    assert ("--int8_kv_cache" in flags) == (
        quantization_of(recipe)["kv_cache_quant_algo"] == "INT8"
    )
