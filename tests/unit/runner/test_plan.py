"""Plans are pure, complete, and keep kinds and prompts apart."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from runner.contract import KINDS, Request
from runner.plan import cut_windows, plan_batches, plan_shared


def mixed_requests() -> list[Request]:
    generator = random.Random(3)
    requests = [
        Request("loglikelihood", [generator.randrange(6)], [generator.randrange(99), k])
        for k in range(40)
    ]
    requests += [Request("generate", [k], max_new_tokens=3) for k in range(11)]
    requests += [Request("loglikelihood_rolling", [0], [k, k]) for k in range(5)]
    generator.shuffle(requests)
    return requests


@pytest.mark.parametrize("plan", [plan_batches, plan_shared])
@pytest.mark.parametrize("batch_size", [1, 3, 8, 100])
def test_a_plan_holds_every_request_once_in_batches_of_one_kind(
    plan: Callable[[list[Request], int], list[list[Request]]], batch_size: int
) -> None:
    requests = mixed_requests()
    batches = plan(requests, batch_size)
    flat = [request for batch in batches for request in batch]
    assert sorted(r.request_id for r in flat) == sorted(r.request_id for r in requests)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        assert len({request.kind for request in batch}) == 1
    assert plan(requests, batch_size) == batches


def test_default_batches_follow_the_file_order_kind_by_kind() -> None:
    requests = mixed_requests()
    flat = [request for batch in plan_batches(requests, 4) for request in batch]
    assert flat == sorted(requests, key=lambda r: KINDS.index(r.kind))


def test_shared_batches_hold_one_prompt_each() -> None:
    batches = plan_shared(mixed_requests(), 5)
    for batch in batches:
        if batch[0].kind == "loglikelihood":
            assert len({tuple(request.prompt_ids) for request in batch}) == 1


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 100])
def test_rolling_windows_equal_those_of_lm_eval(length: int) -> None:
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    text = list(range(1, length + 1))
    windows = get_rolling_token_windows(text, prefix_token=0, max_seq_len=16, context_len=1)
    expected = [make_disjoint_window(window) for window in windows]
    found = cut_windows(Request("loglikelihood_rolling", [0], text), 16)
    assert [(list(a), list(b)) for a, b in found] == [(list(a), list(b)) for a, b in expected]
