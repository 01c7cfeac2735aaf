"""The executor's own rules, on a backend that fails when told to."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from runner.contract import Request, Response
from runner.executor import exceeds_window, execute, refuse_non_finite, run_batch, time_limit
from runner.journal import Journal


class Recorder:
    """Answers every request with its prompt's first token, and keeps what it was asked."""

    window = 8

    def __init__(self, fail_on: int | None = None) -> None:
        self.batches: list[list[int]] = []
        self.fail_on = fail_on

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        return [requests[i : i + 3] for i in range(0, len(requests), 3)]

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        names = [request.prompt_ids[0] for request in batch]
        self.batches.append(names)
        if self.fail_on in names:
            raise RuntimeError("no memory left")
        return [Response(r.request_id, "ok", loglikelihood=-float(r.prompt_ids[0])) for r in batch]


def make_requests(count: int) -> list[Request]:
    return [Request("loglikelihood", [k + 1], [1]) for k in range(count)]


def open_journal(out: Path, requests: list[Request]) -> Journal:
    return Journal(out, "identity", {r.request_id for r in requests}, print)


def test_a_half_done_batch_is_computed_whole_and_only_the_missing_part_is_kept(
    tmp_path: Path,
) -> None:
    requests = make_requests(8)
    journal = open_journal(tmp_path, requests)
    for request in requests[:4]:
        journal.append(Response(request.request_id, "ok", loglikelihood=-99.0))
    backend: Any = Recorder()
    execute(backend, requests, journal, None)
    assert backend.batches == [[4, 5, 6], [7, 8]]
    assert len(journal.done) == 8
    lines = (tmp_path / "responses.jsonl").read_text().splitlines()
    assert sum("-99.0" in line for line in lines) == 4
    assert len(lines) == 8


def test_an_exception_marks_its_whole_batch_and_no_other() -> None:
    backend: Any = Recorder(fail_on=2)
    responses = [
        r for batch in backend.plan(make_requests(6)) for r in run_batch(backend, batch, None)
    ]
    assert [r.status for r in responses] == ["error"] * 3 + ["ok"] * 3
    assert all("RuntimeError: no memory left" in (r.error or "") for r in responses[:3])
    assert backend.batches == [[1, 2, 3], [4, 5, 6]]  # never tried again one by one


def test_a_request_beyond_the_window_leaves_its_batch_alone() -> None:
    requests = [*make_requests(2), Request("loglikelihood", list(range(1, 9)), [1, 2])]
    backend: Any = Recorder()
    responses = run_batch(backend, requests, None)
    assert [r.status for r in responses] == ["ok", "ok", "truncated"]


def test_the_window_counts_what_the_model_reads() -> None:
    # The last token is predicted, never read: 8 positions score 8 + 1 tokens.
    assert not exceeds_window(Request("loglikelihood", [1] * 7, [1, 2]), 8)
    assert exceeds_window(Request("loglikelihood", [1] * 8, [1, 2]), 8)
    assert not exceeds_window(Request("generate", [1] * 7), 8)
    assert exceeds_window(Request("generate", [1] * 8), 8)
    assert not exceeds_window(Request("loglikelihood", [1] * 800, [1]), None)


def test_a_backend_that_answers_other_requests_gives_errors() -> None:
    backend: Any = Recorder()
    backend.loglikelihood = lambda batch: [Response("f" * 64, "ok", loglikelihood=-1.0)]
    (response,) = run_batch(backend, make_requests(1), None)
    assert response.status == "error"
    assert "asked for" in (response.error or "")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["loglikelihood", "token_logprobs", "margins", "top_logprobs"])
def test_a_number_that_is_not_finite_becomes_a_status(field: str, bad: float) -> None:
    values: dict[str, Any] = {
        "loglikelihood": bad,
        "token_logprobs": [-1.0, bad],
        "margins": [bad],
        "top_logprobs": [[-1.0, bad]],
    }
    arguments = {"loglikelihood": -1.0, field: values[field]}
    found = refuse_non_finite(Response("a", "ok", **arguments))
    assert found == Response("a", "error", error="non-finite logits")


def test_the_time_limit_leaves_no_alarm_behind() -> None:
    import signal

    with time_limit(50.0):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
