"""What the converters ask of their tools, seen by a stand-in for the environment's Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sameweights.artifacts import onnx, openvino
from sameweights.errors import UserError

INT8 = {"weights": "int8", "activations": "int8-dynamic", "compute": "fp32"}

STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > {seen}
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
out=${{out:-$1}}
mkdir -p "$out"
for name in {names}; do echo built > "$out/$name"; done
echo "one line"  >&2
echo "the last word" >&2
exit {code}
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[..., tuple[str, Path]]:
    def make(names: tuple[str, ...], code: int = 0) -> tuple[str, Path]:
        script, seen = tmp_path / "python", tmp_path / "seen"
        script.write_text(STAND_IN.format(seen=seen, names=" ".join(names), code=code))
        script.chmod(0o755)
        return str(script), seen

    return make


@pytest.mark.parametrize(
    ("convert", "kept", "recipe", "wanted"),
    [
        (onnx.convert, onnx.KEPT, INT8, ["-p", "int8", "accuracy_level=4"]),
        (
            onnx.convert,
            onnx.KEPT,
            {**INT8, "weights": "int4", "activations": "fp32"},
            ["-p", "int4", "accuracy_level=1"],
        ),
        (openvino.convert, openvino.KEPT, INT8, ["export", "--weight-format", "int8"]),
    ],
)
def test_the_recipe_reaches_the_tool_and_only_its_own_files_stay(
    convert: Callable[..., dict[str, Any]],
    kept: tuple[str, ...],
    recipe: dict[str, Any],
    wanted: list[str],
    stand_in: Callable[..., tuple[str, Path]],
    tmp_path: Path,
) -> None:
    python, seen = stand_in((*kept, "tokenizer.json"))
    how = convert(tmp_path / "model", recipe, tmp_path / "out", python)
    words = seen.read_text().splitlines()
    assert set(wanted) <= set(words)
    assert str(tmp_path / "model") in words
    assert set(how["arguments"]) <= set(words)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(kept)


@pytest.mark.parametrize("converter", [onnx, openvino])
def test_a_failed_tool_and_an_unknown_format_are_told(
    converter: Any, stand_in: Callable[..., tuple[str, Path]], tmp_path: Path
) -> None:
    python, _ = stand_in(converter.KEPT, code=3)
    with pytest.raises(UserError, match="exit code 3: one line / the last word"):
        converter.convert(tmp_path, INT8, tmp_path / "out", python)
    with pytest.raises(UserError, match="'weights' is 'fp8'; allowed: fp32"):
        converter.convert(tmp_path, {**INT8, "weights": "fp8"}, tmp_path / "out", python)
