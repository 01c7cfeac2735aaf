"""The stand-ins against the real sources, where a checkout of them is at hand.

Run `python -m pytest tests/contract/test_signatures.py` with SAMEWEIGHTS_TRTLLM_SOURCES naming one,
with the tag v0.12.0 (or v0.12.0-jetson), v1.2.1 or v1.3 checked out: what that version has is
compared, the rest is skipped. SAMEWEIGHTS_VLLM_SOURCES and SAMEWEIGHTS_SGLANG_SOURCES name
checkouts of vllm-project/vllm and sgl-project/sglang, or folders of unpacked wheels. Nothing is
imported or compiled: Python by its syntax tree, the bindings by the names in their constructors.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
from tests.contract.trtllm_stub import STUBS

from runner.backends import sglang, vllm
from runner.backends._trtllm_executor import ARGUMENTS
from runner.backends._trtllm_llm import SAMPLING
from runner.backends._trtllm_recipe import build_arguments, convert_arguments, flags_in, recipes

VARIABLE = "SAMEWEIGHTS_TRTLLM_SOURCES"
LLM_ARGUMENTS = ("model", "tokenizer", "tensor_parallel_size", "dtype")
RESULT_FIELDS = {
    "CompletionOutput": ("token_ids", "generation_logits"),
    "GenerationResultBase": ("context_logits", "outputs"),
}


def read(*places: str, variable: str = VARIABLE) -> str:
    """Return the first of these files that the checkout has; skips where it has none."""
    root = os.environ.get(variable)
    if not root:
        pytest.skip(f"{variable} names no checkout of the runtime's sources")
    for place in places:
        if (Path(root) / place).is_file():
            return (Path(root) / place).read_text(encoding="utf-8")
    pytest.skip(f"this version has none of {', '.join(places)}")


def find_class(source: str, name: str) -> ast.ClassDef:
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and node.name == name
    ]
    assert found, f"no class {name}"
    return found[0]


def fields(node: ast.ClassDef) -> set[str]:
    """Names of a class's annotated fields, methods and properties."""
    names = {
        s.target.id
        for s in node.body
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
    }
    return names | {s.name for s in node.body if isinstance(s, ast.FunctionDef)}


def parameters(node: ast.ClassDef) -> set[str]:
    (init,) = [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"]
    return {a.arg for a in [*init.args.args, *init.args.kwonlyargs]}


def binding_arguments(source: str, name: str) -> set[str]:
    """Names of all `arg("...")` between the class of this name and the next class."""
    start = re.search(rf'class_<[^>]*(?:<[^>]*>)?[^>]*>\s*\w*\(m, "{name}"', source)
    assert start, f"no binding of {name}"
    body = source[start.end() :]
    end = re.search(r"class_<", body)
    return set(re.findall(r'arg(?:_v)?\(\s*"(\w+)"', body[: end.start() if end else None]))


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_the_bindings_take_what_is_given_to_them(name: str) -> None:
    folder = "cpp/tensorrt_llm/pybind/executor"
    places = (f"{folder}/bindings.cpp", f"{folder}/executorConfig.cpp", f"{folder}/request.cpp")
    sources = [read(places[0])]
    root = Path(os.environ[VARIABLE])
    sources += [(root / p).read_text() for p in places[1:] if (root / p).is_file()]
    if "max_new_tokens" not in "".join(sources):
        pytest.skip("not the generation of 0.12")
    (source,) = [s for s in sources if re.search(rf'\(m, "{name}"', s)]
    real = binding_arguments(source, name)
    assert set(ARGUMENTS[name]) <= real
    stub = find_class((STUBS / "trtllm_0_12/tensorrt_llm/bindings/executor.py").read_text(), name)
    assert fields(stub) <= real


@pytest.mark.parametrize("name", ["SamplingParams", "KvCacheConfig"])
def test_the_stand_ins_fields_are_fields_of_the_real_class(name: str) -> None:
    place = {"SamplingParams": "sampling_params.py", "KvCacheConfig": "llmapi/llm_args.py"}[name]
    real = fields(find_class(read(f"tensorrt_llm/{place}"), name))
    stub = fields(find_class((STUBS / "stub_llm_api.py").read_text(), name))
    assert stub <= real
    if name == "SamplingParams":
        assert set(SAMPLING) <= real


def test_the_llm_classes_take_what_is_given_to_them() -> None:
    source = read("tensorrt_llm/llmapi/llm.py")
    for name in ("_TrtLLM", "_TorchLLM"):
        if f"class {name}(" in source:
            assert set(LLM_ARGUMENTS) <= parameters(find_class(source, name))


@pytest.mark.parametrize("name", sorted(RESULT_FIELDS))
def test_results_have_the_fields_that_are_read(name: str) -> None:
    source = read("tensorrt_llm/executor/result.py")
    assert set(RESULT_FIELDS[name]) <= fields(find_class(source, name))


def test_trtllm_build_knows_every_flag() -> None:
    source = read("tensorrt_llm/commands/build.py")
    plugins = read("tensorrt_llm/plugin/plugin.py")
    for recipe in recipes():
        arguments = build_arguments(
            recipe, Path("c"), Path("o"), 64, ("scoring", "generation"), Path("t")
        )
        for flag in flags_in(arguments):
            assert f"'{flag}'" in source or f'"{flag}"' in source or flag[2:] in plugins, flag


@pytest.mark.parametrize("family", ["qwen", "llama"])
def test_the_converter_knows_every_flag(family: str) -> None:
    source = read(
        f"examples/{family}/convert_checkpoint.py",
        f"examples/models/core/{family}/convert_checkpoint.py",
    )
    for recipe in recipes():
        if recipe["weights"] != "fp8":
            for flag in flags_in(convert_arguments(recipe, Path("m"), Path("c"), Path("t"))):
                assert f"'{flag}'" in source or f'"{flag}"' in source, flag


CANDIDATES = {
    "vllm engine": ("VLLM", "vllm/engine/arg_utils.py", "EngineArgs", vllm.ENGINE),
    "vllm sampling": ("VLLM", "vllm/sampling_params.py", "SamplingParams", vllm.SAMPLING),
    "sglang server": ("SGLANG", "sglang/srt/server_args.py", "ServerArgs", sglang.SERVER),
    "sglang sampling": (
        "SGLANG",
        "sglang/srt/sampling/sampling_params.py",
        "SamplingParams",
        sglang.SAMPLING,
    ),
}
"""Where a class stands in the sources, and the names that an adapter gives it."""

STAND_INS = {
    "vllm engine": "vllm_0_33/vllm/__init__.py",
    "vllm sampling": "vllm_0_33/vllm/__init__.py",
    "sglang server": "sglang_0_5/sglang/srt/server_args.py",
    "sglang sampling": "sglang_0_5/sglang/srt/sampling/sampling_params.py",
}


@pytest.mark.parametrize("which", sorted(CANDIDATES))
def test_the_real_class_has_the_stand_ins_fields(which: str) -> None:
    runtime, place, name, _ = CANDIDATES[which]
    variable = f"SAMEWEIGHTS_{runtime}_SOURCES"
    real = fields(find_class(read(place, f"python/{place}", variable=variable), name))
    if name == "ServerArgs":
        # From 0.5.23 on it is put together from the classes of arg_groups/fields.
        for part in sorted(Path(os.environ[variable]).rglob("srt/arg_groups/fields/*.py")):
            classes = ast.walk(ast.parse(part.read_text(encoding="utf-8")))
            real |= {f for c in classes if isinstance(c, ast.ClassDef) for f in fields(c)}
    stub = fields(find_class((STUBS / STAND_INS[which]).read_text(), name))
    assert stub - {"__post_init__"} <= real


@pytest.mark.parametrize("which", sorted(CANDIDATES))
def test_the_stand_in_has_every_name_that_the_adapter_gives(which: str) -> None:
    _, _, name, given = CANDIDATES[which]
    assert set(given) <= fields(find_class((STUBS / STAND_INS[which]).read_text(), name))
