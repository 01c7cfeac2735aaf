"""Engines that misbehave in each known way, by name: contract or canary refuses every one.

The list is that of the runtimes' known traps. Each fault is seen twice where it can be: by a
backend that passes numbers on as they come, and by the TensorRT-LLM adapters, whose stand-in
engine has the fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import STUB_OPTIONS, STUBS, make_spec
from tests.contract.test_backends import make_canary
from tests.contract.trtllm_stub import open_on_stub

from runner.canary import CanaryFailure, check_canary
from runner.contract import Request, Response
from runner.executor import run_batch

if TYPE_CHECKING:
    from tests.contract.conftest import Case

TOLERANCE = 0.02
"""That of fp16."""

PADDING = 20
"""Columns behind the real vocabulary, as engines add them."""


@dataclass(frozen=True)
class Trap:
    """A fault, where it shows, and what the refusal must say."""

    spoil: Callable[[Naive, Request, list[list[float]]], Response]
    says: str


class Naive:
    """Passes on what its engine gives, from an oracle's numbers and one fault."""

    window = None

    def __init__(self, case: Case, trap: str) -> None:
        self.case = case
        self.trap = TRAPS[trap]

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        return [[request] for request in requests]

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        return [self.trap.spoil(self, request, self.rows(request)) for request in batch]

    def generate(self, batch: list[Request]) -> list[Response]:
        answers = []
        for request in batch:
            row = self.case.next_logprobs(request.prompt_ids)
            ids = [max(range(len(row)), key=row.__getitem__)]
            if self.trap is TRAPS["prompt in output"]:
                ids = request.prompt_ids + ids
            if self.trap is TRAPS["prompt in output, cut to the limit"]:
                ids = request.prompt_ids[:1]
            answers.append(Response(request.request_id, "ok", token_ids=ids, text=""))
        return answers

    def rows(self, request: Request) -> list[list[float]]:
        """Log-probabilities after every token of prompt and continuation, the last left out."""
        ids = request.prompt_ids + request.continuation_ids
        return [self.case.next_logprobs(ids[: k + 1]) for k in range(len(ids) - 1)]


def answer(request: Request, values: list[float]) -> Response:
    return Response(
        request.request_id, "ok", loglikelihood=sum(values), is_greedy=True, token_logprobs=values
    )


def pick(request: Request, rows: list[list[float]], shift: int = 0) -> list[float]:
    first = len(request.prompt_ids) - 1 - shift
    return [rows[first + k][t] for k, t in enumerate(request.continuation_ids)]


def constant(value: float) -> Callable[[Naive, Request, list[list[float]]], Response]:
    return lambda _, request, __: answer(request, [value] * len(request.continuation_ids))


def right(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    best = [max(range(len(row)), key=row.__getitem__) for row in rows]
    values = pick(request, rows)
    greedy = best[len(request.prompt_ids) - 1 :] == request.continuation_ids
    return replace(answer(request, values), is_greedy=greedy)


def next_token_of_the_row_before(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    """lm-eval's stock class for this runtime: the row before the one that scores a token."""
    return answer(request, pick(request, rows, shift=1))


def moved_list(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    """The right values, given to the token before."""
    ids = request.prompt_ids + request.continuation_ids
    values = [row[token] for row, token in zip(rows, ids[1:], strict=True)]
    first = len(request.prompt_ids) - 2
    return answer(request, values[first : first + len(request.continuation_ids)])


def padded(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    """Softmax over the padding too, where padding holds what memory held: usual logits."""
    first = len(request.prompt_ids) - 1
    totals = [1.0 + sum(map(math.exp, row[:PADDING])) for row in rows[first:]]
    values = zip(pick(request, rows), totals, strict=True)
    return answer(request, [value - math.log(total) for value, total in values])


def suffix(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    return answer(request, pick(request, rows)[-2:])


def top_k_infinite(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    return answer(request, [v if v > -1 else -math.inf for v in pick(request, rows)])


def top_k_default(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    return answer(request, [max(v, -1.0) for v in pick(request, rows)])


def top_k_dropped(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    return answer(request, [v for v in pick(request, rows) if v > -1])


def far_off(_: Naive, request: Request, rows: list[list[float]]) -> Response:
    return answer(request, [v - 0.9 for v in pick(request, rows)])


TRAPS = {
    "zero logprobs": Trap(constant(0.0), "below zero.*does not measure prompt tokens"),
    "positive": Trap(constant(0.5), "below zero"),
    "nan": Trap(constant(math.nan), "non-finite.*overflow"),
    "all equal": Trap(
        lambda _, request, __: Response(request.request_id, "ok", loglikelihood=-3.0),
        "does not look at its input",
    ),
    "off by one, wrong row": Trap(next_token_of_the_row_before, "mean absolute difference"),
    "off by one, moved list": Trap(moved_list, "one position off"),
    "padded vocabulary": Trap(padded, "padding columns"),
    "block reuse returns a suffix": Trap(suffix, "block reuse"),
    "truncated top-k, missing is -inf": Trap(top_k_infinite, "truncated top-k"),
    "truncated top-k, missing has a default": Trap(top_k_default, "truncated top-k"),
    "truncated top-k, missing is left out": Trap(top_k_dropped, "truncated top-k"),
    "far off": Trap(far_off, "other weights"),
    "prompt in output": Trap(right, "begin with the prompt"),
    "prompt in output, cut to the limit": Trap(right, "the prompt is included"),
}
CONTROL = Trap(right, "")


@pytest.mark.parametrize("name", sorted(TRAPS))
def test_a_backend_that_passes_the_fault_on_is_refused(
    name: str, open_backend: Callable[[str], Case]
) -> None:
    case = open_backend("torch-independent")
    naive: Any = Naive(case, name)
    with pytest.raises(CanaryFailure, match=TRAPS[name].says):
        check_canary(naive, make_canary(case, tolerance=TOLERANCE), None, writes=True)


def test_the_same_backend_without_a_fault_passes(open_backend: Callable[[str], Case]) -> None:
    case = open_backend("torch-independent")
    naive: Any = Naive(case, "far off")
    naive.trap = CONTROL
    assert check_canary(naive, make_canary(case, tolerance=TOLERANCE), None, writes=True)["passed"]


ENGINE_FAULTS = {
    "zero logits": "mean absolute difference",
    "off by one": "mean absolute difference",
    "equal": "mean absolute difference",
    "nan": "non-finite.*overflow",
    "suffix": "block reuse",
    "prompt in output": "the prompt is included in the output",
    "beyond vocabulary": "outside the vocabulary",
}


@pytest.mark.parametrize("name", sorted(STUBS))
@pytest.mark.parametrize("fault", sorted(ENGINE_FAULTS))
def test_an_engine_with_a_fault_is_refused_by_its_adapter_or_the_canary(
    fault: str,
    name: str,
    open_backend: Callable[[str], Case],
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    case = open_backend("torch-independent")
    adapter = open_backend(name).spec.adapter
    spec = make_spec(adapter, STUB_OPTIONS[adapter])
    broken = open_on_stub(STUBS[name], spec, tiny_model, tmp_path, fault)
    with pytest.raises(CanaryFailure, match=ENGINE_FAULTS[fault]):
        check_canary(broken, make_canary(case, tolerance=TOLERANCE), None, writes=True)


@pytest.mark.parametrize("name", sorted(STUBS))
def test_padding_that_is_not_small_changes_nothing(
    name: str, open_backend: Callable[[str], Case], tiny_model: Path, tmp_path: Path
) -> None:
    case = open_backend("torch-independent")
    adapter = open_backend(name).spec.adapter
    spec = make_spec(adapter, STUB_OPTIONS[adapter])
    loud = open_on_stub(STUBS[name], spec, tiny_model, tmp_path, "loud padding")
    assert check_canary(loud, make_canary(case), None, writes=True)["passed"]


@pytest.mark.parametrize("name", sorted(STUBS))
def test_generation_logits_of_other_positions_are_an_error(
    name: str, open_backend: Callable[[str], Case], tiny_model: Path, tmp_path: Path
) -> None:
    adapter = open_backend(name).spec.adapter
    spec = make_spec(adapter, STUB_OPTIONS[adapter])
    moved = open_on_stub(STUBS[name], spec, tiny_model, tmp_path, "shifted generation")
    (response,) = run_batch(moved, [Request("generate", [5, 6], max_new_tokens=9)], None)
    assert response.status == "error"
    assert "one position off" in (response.error or "")
