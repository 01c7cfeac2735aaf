"""TensorRT Edge-LLM on stand-in programs: text only, and told so before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import make_spec
from tests.contract.trtllm_stub import inside, stub_runtime

from runner.backends.trt_edgellm import Backend
from runner.checks import CheckFailure
from runner.contract import CellSpec, Request
from runner.executor import run_batch
from runner.session import check_kinds

if TYPE_CHECKING:
    from tests.contract.conftest import Case

FP16 = {"weights": "fp16", "activations": "fp16", "compute": "fp16"}
SPEC = make_spec("trt_edgellm", {"max_seq_len": 64}, FP16)


@pytest.fixture
def open_edge(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Backend]]:
    monkeypatch.setenv("STUB_MODEL", str(tiny_model))
    export = tmp_path / "export"
    (export / "llm").mkdir(parents=True)
    for path in tiny_model.glob("*.json"):
        (export / path.name).write_bytes(path.read_bytes())

    def get(fault: str) -> Backend:
        os.environ["STUB_FAULT"] = fault
        Backend.build(export, SPEC, None, None, print)
        return Backend(export, SPEC)

    monkeypatch.setenv("STUB_FAULT", "none")
    with stub_runtime("edgellm_0_11"), inside(tmp_path):
        yield get


def test_text_equals_the_oracle_and_settings_share_a_call(
    open_edge: Callable[[str], Backend], open_backend: Callable[[str], Case]
) -> None:
    case = open_backend("torch-independent")
    backend: Any = open_edge("none")
    requests = [
        Request("generate", case.encode(text), max_new_tokens=n)
        for text, n in (("one two three", 4), ("the cat sat", 6), ("a red fox", 4))
    ]
    batches = backend.plan(requests)
    assert [len(batch) for batch in batches] == [2, 1]
    others = run_batch(case.backend, batches[0], None)
    for mine, other in zip(run_batch(backend, batches[0], None), others, strict=True):
        assert mine.status == "ok", mine.error
        assert mine.text == other.text
        assert mine.token_ids is None


def test_scores_are_refused_before_anything_is_loaded() -> None:
    requests = [Request("loglikelihood", [1], [2]), Request("generate", [1], max_new_tokens=1)]
    with pytest.raises(CheckFailure, match=r"generate requests only; the cell has 1 loglikelihood"):
        check_kinds("trt_edgellm", Backend.KINDS, requests)
    check_kinds("trt_edgellm", Backend.KINDS, requests[1:])


def test_a_drawn_text_is_an_error_because_there_is_no_seed(
    open_edge: Callable[[str], Backend],
) -> None:
    backend: Any = open_edge("none")
    request = Request("generate", [5, 6], max_new_tokens=2, temperature=0.7)
    (response,) = run_batch(backend, [request], None)
    assert response.status == "error"
    assert "no seed" in (response.error or "")


def test_onnx_that_was_not_exported_is_missed_by_name(
    open_edge: Callable[[str], Backend], tmp_path: Path
) -> None:
    spec: CellSpec = replace(SPEC, files={"other": "0"})
    with pytest.raises(CheckFailure, match="tensorrt-edgellm-export"):
        Backend.build(tmp_path / "nothing", spec, None, None, print)
