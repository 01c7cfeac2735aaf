"""The PyTorch backend of TensorRT-LLM on its stand-in; it has no fp32 for the contract suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import WINDOW, make_spec
from tests.contract.test_backends import make_canary
from tests.contract.trtllm_stub import open_on_stub, stub_runtime

from runner.backends import load_adapter
from runner.canary import check_canary
from runner.checks import CheckFailure
from runner.contract import Request
from runner.executor import run_batch

if TYPE_CHECKING:
    from tests.contract.conftest import Case

FP16 = {"weights": "fp16", "activations": "fp16", "compute": "fp16"}
SPEC = make_spec("trtllm_pytorch", {"max_seq_len": WINDOW + 1}, FP16)


def test_scores_and_text_equal_the_oracle(
    open_backend: Callable[[str], Case], tiny_model: Path, tmp_path: Path
) -> None:
    case = open_backend("torch-independent")
    backend = open_on_stub("trtllm_1_3", SPEC, tiny_model, tmp_path)
    assert check_canary(backend, make_canary(case), None, writes=True)["passed"]
    request = Request("generate", case.encode("one two three"), max_new_tokens=6)
    (mine,) = run_batch(backend, [request], None)
    (other,) = run_batch(case.backend, [request], None)
    assert mine.status == "ok", mine.error
    assert (mine.token_ids, mine.text) == (other.token_ids, other.text)
    assert mine.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-3)


@pytest.mark.parametrize(
    ("adapter", "stub", "says"),
    [
        ("trtllm_pytorch", "trtllm_1_2", "1.2.1 is installed.*>=1.3"),
        ("trtllm_engine", "trtllm_1_3", "1.3.0 is installed.*<=1.2.1"),
    ],
)
def test_one_is_never_run_under_the_others_label(
    adapter: str, stub: str, says: str, tiny_model: Path
) -> None:
    spec = make_spec(adapter, {}, FP16)
    with stub_runtime(stub), pytest.raises(CheckFailure, match=says):
        backend: Any = load_adapter(adapter)
        backend(tiny_model, spec)
