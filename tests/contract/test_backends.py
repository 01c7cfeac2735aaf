"""One suite that every backend passes: what it must return, and what the canary must catch."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import FIXTURES

from runner.backends import load_adapter
from runner.canary import CanaryFailure, check_canary
from runner.contract import Request, Response, canonical_json, check_response
from runner.executor import run_batch
from runner.options import OptionError

if TYPE_CHECKING:
    from tests.contract.conftest import Case

CLOSE_NATS = 2e-4
PROMPTS = ("the cat sat on", "one two three", "a red fox jumps over the lazy", "the dog")
TEXTS = (" the mat", " four five six", " brown dog at", " ran to the door")


def scoring_requests(case: Case) -> list[Request]:
    """Pairs of all prompts with two texts each: unequal lengths and shared prompts."""
    pairs = [(p, t) for i, p in enumerate(PROMPTS) for t in (TEXTS[i], TEXTS[(i + 1) % 4])]
    requests = [Request("loglikelihood", case.encode(p), case.encode(t)) for p, t in pairs]
    one_token = [Request("loglikelihood", case.encode(PROMPTS[0]), [k]) for k in (5, 6, 7, 8)]
    return requests + one_token


def writing_requests(case: Case, until: list[str] | None = None) -> list[Request]:
    return [
        Request("generate", case.encode(p), until=until or [], max_new_tokens=n)
        for p, n in zip(PROMPTS, (9, 4, 12, 7), strict=True)
    ]


def run_all(case: Case, requests: list[Request]) -> list[Response]:
    """Run by the backend's own plan; return the responses in the order of the requests."""
    found = {
        response.request_id: response
        for batch in case.backend.plan(requests)
        for response in run_batch(case.backend, batch, None)
    }
    return [found[request.request_id] for request in requests]


def expected_logprobs(case: Case, context: list[int], text: list[int]) -> list[float]:
    ids = context + text
    start = len(context)
    return [case.next_logprobs(ids[:k])[ids[k]] for k in range(start, len(ids))]


def greedy_ids(case: Case, request: Request) -> list[int]:
    """Write greedily with the oracle alone."""
    ids: list[int] = []
    while len(ids) < request.max_new_tokens:
        row = case.next_logprobs(request.prompt_ids + ids)
        ids.append(max(range(len(row)), key=row.__getitem__))
        if ids[-1] == case.eos:
            break
    return ids


def find_readable_text(case: Case) -> tuple[Request, list[str], int]:
    """Return a request whose text has two ASCII tokens side by side, its pieces, and where."""
    for token in range(5, 300):
        request = Request("generate", [token, token + 1], max_new_tokens=10)
        pieces = [case.decode([k]) for k in greedy_ids(case, request)]
        for at in range(1, len(pieces) - 1):
            here, there = pieces[at], pieces[at + 1]
            if here and there and (here + there).isascii() and here + there not in pieces[:at]:
                return request, pieces, at
    raise AssertionError("no prompt gives readable text")


def skip_fake_text(case: Case) -> None:
    if case.name == "fake":
        pytest.skip("the bigram table has no tokenizer to write text with")


def test_every_request_has_one_response_that_keeps_the_contract(case: Case) -> None:
    requests = scoring_requests(case) + writing_requests(case)
    planned = [r.request_id for batch in case.backend.plan(requests) for r in batch]
    assert sorted(planned) == sorted(r.request_id for r in requests)
    for request, response in zip(requests, run_all(case, requests), strict=True):
        line = canonical_json(response.to_json())
        assert check_response(json.loads(line), "line 1") == response
        assert response.request_id == request.request_id
        assert response.status == "ok", response.error
        for name in case.backend.EVIDENCE:
            assert getattr(response, name) is not None, name
    assert case.backend.describe()["evidence"] == list(case.backend.EVIDENCE)


def test_loglikelihoods_equal_the_oracle(case: Case) -> None:
    requests = scoring_requests(case)
    for request, response in zip(requests, run_all(case, requests), strict=True):
        expected = expected_logprobs(case, request.prompt_ids, request.continuation_ids)
        assert response.loglikelihood == pytest.approx(math.fsum(expected), abs=CLOSE_NATS)
        if response.token_logprobs is not None:
            assert response.token_logprobs == pytest.approx(expected, abs=CLOSE_NATS)


def test_is_greedy_tells_whether_every_token_is_the_best(case: Case) -> None:
    prompt = case.encode(PROMPTS[0])
    row = case.next_logprobs(prompt)
    best = max(range(len(row)), key=row.__getitem__)
    worst = min(range(len(row)), key=row.__getitem__)
    after = case.next_logprobs([*prompt, best])
    second = max(range(len(after)), key=after.__getitem__)
    requests = [
        Request("loglikelihood", prompt, continuation)
        for continuation in ([best], [best, second], [worst], [worst, second])
    ]
    flags = [response.is_greedy for response in run_all(case, requests)]
    assert flags == [True, True, False, False]


def test_evidence_is_that_of_the_scored_positions(case: Case) -> None:
    if not case.backend.EVIDENCE:
        pytest.skip("gives no evidence per token, and says so")
    for request, response in zip(
        scoring_requests(case), run_all(case, scoring_requests(case)), strict=True
    ):
        for index, margin in enumerate(response.margins or []):
            ids = request.prompt_ids + request.continuation_ids[:index]
            top = sorted(case.next_logprobs(ids), reverse=True)
            assert margin == pytest.approx(top[0] - top[1], abs=CLOSE_NATS)
            assert (response.top_logprobs or [])[index] == pytest.approx(top[:3], abs=CLOSE_NATS)
        assert len(response.margins or []) == len(request.continuation_ids)


def test_rolling_text_longer_than_the_window_is_scored_in_disjoint_windows(case: Case) -> None:
    window = case.backend.window
    assert window is not None
    if window > 100:
        pytest.skip("the bigram table's window makes no difference to its numbers")
    text = (case.encode(" ".join(PROMPTS + TEXTS)) * 6)[: 2 * window + 5]
    request = Request("loglikelihood_rolling", [case.eos], text)
    (response,) = run_all(case, [request])
    everything = [case.eos, *text]
    total = 0.0
    for done in range(0, len(text), window):
        end = min(done + window, len(text))
        start = max(0, end - window)
        total += math.fsum(
            case.next_logprobs(everything[start : k + 1])[text[k]] for k in range(done, end)
        )
    assert response.loglikelihood == pytest.approx(total, abs=1e-2)


def test_what_does_not_fit_into_the_window_is_truncated(case: Case) -> None:
    window = case.backend.window or 0
    long = [7] * (window + 1)
    for request in (
        Request("loglikelihood", long, [5]),
        Request("generate", long, max_new_tokens=2),
    ):
        (response,) = run_batch(case.backend, [request], None)
        assert response.status == "truncated"
        assert str(window) in (response.error or "")


def test_batches_change_numbers_by_rounding_only(
    case: Case, open_backend: Callable[[str], Case]
) -> None:
    requests = scoring_requests(case)
    together = run_all(case, requests)
    alone = [run_batch(case.backend, [request], None)[0] for request in requests]
    for a, b in zip(together, alone, strict=True):
        assert a.loglikelihood == pytest.approx(b.loglikelihood, abs=CLOSE_NATS)


def test_greedy_text_equals_the_oracle_and_ends_at_its_own_end(case: Case) -> None:
    skip_fake_text(case)
    requests = writing_requests(case)
    for request, response in zip(requests, run_all(case, requests), strict=True):
        expected = greedy_ids(case, request)
        assert response.text == case.decode(expected)
        if response.token_ids is not None:
            assert response.token_ids == expected
            assert response.finish_reason == ("eos" if expected[-1] == case.eos else "length")
            assert len(response.token_logprobs or []) == len(expected)
            assert len(response.top_ids or []) == len(expected)
            assert [row[0] for row in response.top_ids or []] == expected


def test_text_is_cut_before_a_stop_string_that_lies_across_tokens(case: Case) -> None:
    skip_fake_text(case)
    request, pieces, at = find_readable_text(case)
    stop = pieces[at][-1] + pieces[at + 1][0]
    whole = "".join(pieces)
    (response,) = run_all(case, [replace(request, until=[stop])])
    assert response.text == whole.split(stop)[0]
    assert stop not in (response.text or "")
    if response.token_ids is not None:
        assert response.finish_reason == "stop"
        assert len(response.token_ids) <= at + 2
        assert len(response.margins or []) == len(response.token_ids)


def test_an_empty_answer_is_an_answer(case: Case) -> None:
    skip_fake_text(case)
    request = Request("generate", case.encode("the end"), max_new_tokens=5)
    (response,) = run_all(case, [request])
    assert response.status == "ok"
    assert response.text == ""
    if response.token_ids is not None:
        assert response.token_ids == [case.eos]
        assert response.finish_reason == "eos"


def test_an_unknown_option_is_refused_with_a_suggestion(case: Case) -> None:
    name = min(case.backend.OPTIONS)
    spec = replace(case.spec, options={**case.spec.options, name[1:]: 2})
    with pytest.raises(OptionError, match=f"did you mean '{name}'"):
        load_adapter(spec.adapter)(Path("never-opened"), spec)


def test_a_whole_backend_takes_less_than_80_lines() -> None:
    (path,) = FIXTURES.glob("*.py")
    assert len(path.read_text().splitlines()) < 80


class Broken:
    """A backend made wrong in one of the ways that real ones have been."""

    def __init__(self, backend: Any, fault: str) -> None:
        self.backend, self.fault = backend, fault
        self.window = backend.window

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        batches: list[list[Request]] = self.backend.plan(requests)
        return batches

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        if self.fault == "off by one":
            shifted = [
                replace(
                    r,
                    prompt_ids=r.prompt_ids[:-1],
                    continuation_ids=[r.prompt_ids[-1], *r.continuation_ids[:-1]],
                )
                for r in batch
            ]
            answers = [self.backend.loglikelihood([request])[0] for request in shifted]
            return [
                replace(a, request_id=r.request_id) for a, r in zip(answers, batch, strict=True)
            ]
        value = {"zeros": 0.0, "all equal": -3.0, "nan": math.nan, "positive": 0.5}[self.fault]
        return [
            Response(
                r.request_id,
                "ok",
                loglikelihood=value,
                token_logprobs=[value] * len(r.continuation_ids),
            )
            for r in batch
        ]


def make_canary(case: Case, tolerance: float = 0.01) -> dict[str, Any]:
    requests = [
        Request("loglikelihood", case.encode(p), case.encode(t))
        for p, t in zip(PROMPTS, TEXTS, strict=True)
    ]
    return {
        "requests": [request.to_json() for request in requests],
        "token_logprobs": [
            expected_logprobs(case, request.prompt_ids, request.continuation_ids)
            for request in requests
        ],
        "tolerance_nats": tolerance,
    }


def test_the_canary_lets_a_right_backend_pass(case: Case) -> None:
    report = check_canary(case.backend, make_canary(case), None)
    assert report["passed"] is True
    assert report["mean_abs_diff_nats"] < CLOSE_NATS


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("zeros", "below zero"),
        ("positive", "below zero"),
        ("all equal", "does not look at its input"),
        ("nan", "non-finite"),
        ("off by one", "mean absolute difference"),
    ],
)
def test_the_canary_catches_a_wrong_backend(case: Case, fault: str, word: str) -> None:
    broken: Any = Broken(case.backend, fault)
    with pytest.raises(CanaryFailure, match=word) as caught:
        check_canary(broken, make_canary(case), None)
    assert caught.value.report["passed"] is False


def test_the_canary_catches_a_difference_just_beyond_its_tolerance(case: Case) -> None:
    canary = make_canary(case, tolerance=0.05)
    canary["token_logprobs"] = [[x - 0.06 for x in row] for row in canary["token_logprobs"]]
    with pytest.raises(CanaryFailure, match=r"0\.06 nats per token.*allowed 0\.05"):
        check_canary(case.backend, canary, None)
