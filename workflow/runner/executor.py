"""Run a plan batch by batch into the journal; what is already there is not measured again."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

from runner.backends import Backend
from runner.contract import Request, Response
from runner.journal import Journal
from runner.sensors import Sensors, describe

PROGRESS_EVERY_S = 5.0
NON_FINITE = "non-finite logits"
ROUNDING = 1e-3
"""A certain token's log-probability may come out this far above zero."""


class RequestTimeout(Exception):
    """A batch ran longer than the cell's request_timeout_s."""


def execute(
    backend: Backend,
    requests: list[Request],
    journal: Journal,
    timeout_s: float | None,
    sensors: Sensors | None = None,
) -> None:
    """Bring a response of every request into the journal.

    Batches follow the backend's plan over *all* requests. A batch that was cut off halfway is
    computed whole again and only its missing responses are appended, so that a resumed run
    equals an unbroken one. Raises OSError when the journal cannot be written.
    """
    progress = Progress(len(requests), len(journal.done), sensors or Sensors())
    for batch in backend.plan(requests):
        missing = {r.request_id for r in batch} - journal.done.keys()
        if not missing:
            continue
        for response in run_batch(backend, batch, timeout_s):
            if response.request_id in missing:
                journal.append(response)
        progress.report(len(journal.done))
    progress.finish(len(journal.done))


def run_batch(backend: Backend, batch: list[Request], timeout_s: float | None) -> list[Response]:
    """Return one response a request, in order; a failure is a status, never a number.

    An exception marks the whole batch: running its requests one by one instead would measure
    them under another batch composition than the cell declares.
    """
    fitting = [r for r in batch if not exceeds_window(r, backend.window)]
    started = time.monotonic()
    measured: list[Response] = []
    if fitting:
        run = backend.generate if fitting[0].kind == "generate" else backend.loglikelihood
        try:
            with time_limit(timeout_s):
                measured = run(fitting)
            _check_answers(fitting, measured)
            measured = [
                refuse_contradiction(request, response)
                for request, response in zip(fitting, measured, strict=True)
            ]
        except RequestTimeout:
            text = f"the batch of {len(fitting)} ran longer than {timeout_s} s"
            measured = [Response(r.request_id, "timeout", error=text) for r in fitting]
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            measured = [Response(r.request_id, "error", error=text) for r in fitting]
    share_s = (time.monotonic() - started) / len(batch)
    by_id = {response.request_id: refuse_non_finite(response) for response in measured}
    return [
        replace(by_id.get(r.request_id) or _truncated(r, backend.window), elapsed_s=share_s)
        for r in batch
    ]


def exceeds_window(request: Request, window: int | None) -> bool:
    """Whether the model has fewer positions than the request needs to be measured at all."""
    if window is None or request.kind == "loglikelihood_rolling":
        return False
    if request.kind == "generate":
        return len(request.prompt_ids) >= window
    return len(request.prompt_ids) + len(request.continuation_ids) - 1 > window


def refuse_non_finite(response: Response) -> Response:
    """Return the response, or status `error` if any of its numbers is NaN or infinite."""
    if response.status == "ok" and not all(map(math.isfinite, _numbers(response))):
        return Response(response.request_id, "error", error=NON_FINITE)
    return response


def refuse_contradiction(request: Request, response: Response) -> Response:
    """Return the response, or status `error` where it cannot be an answer to the request."""
    fault = find_contradiction(request, response) if response.status == "ok" else None
    return Response(response.request_id, "error", error=fault) if fault else response


def find_contradiction(request: Request, response: Response) -> str | None:
    """Say what no right backend returns, with the usual cause; None where all fits.

    Looks at lengths and signs only, which hold for any model: one entry of evidence a token, no
    more tokens than asked for, no probability above one.
    """
    if request.kind == "generate":
        ids = response.token_ids
        if ids is not None and len(ids) > request.max_new_tokens:
            prompt = ids[: len(request.prompt_ids)] == request.prompt_ids
            return (
                f"{len(ids)} tokens were written, {request.max_new_tokens} asked for; "
                + ("they begin with the prompt: " if prompt else "usual cause: ")
                + "the prompt is included in the output"
            )
        count = None if ids is None else len(ids)
    else:
        count = len(request.continuation_ids)
    evidence = {
        "token_logprobs": response.token_logprobs,
        "margins": response.margins,
        "top_ids": response.top_ids,
        "top_logprobs": response.top_logprobs,
    }
    for name, values in evidence.items():
        if values is not None and count is not None and len(values) != count:
            return (
                f"{len(values)} {name} for {count} tokens; usual cause: KV cache block reuse, "
                "which returns a suffix, or a token outside a truncated top-k"
            )
    if min(response.token_ids or [0]) < 0:
        return "a written token id is below zero"
    if max(response.token_logprobs or [0.0]) > ROUNDING:
        return f"log-probability {max(response.token_logprobs or [])}; it must be below zero"
    return None


def _numbers(response: Response) -> Iterator[float]:
    if response.loglikelihood is not None:
        yield response.loglikelihood
    yield from response.token_logprobs or ()
    yield from response.margins or ()
    for row in response.top_logprobs or ():
        yield from row


def _check_answers(batch: list[Request], responses: list[Response]) -> None:
    asked = [r.request_id for r in batch]
    got = [r.request_id for r in responses]
    if asked != got:
        raise ValueError(f"the backend answered requests {got}, asked for {asked}")


def _truncated(request: Request, window: int | None) -> Response:
    length = len(request.prompt_ids) + len(request.continuation_ids)
    text = f"{length} tokens do not fit into the model's window of {window}"
    return Response(request.request_id, "truncated", error=text)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise RequestTimeout in the block after so many seconds of wall time; None: no limit.

    A signal is seen between two Python instructions, so a single kernel is never cut in two.
    """
    if seconds is None:
        yield
        return

    def expire(_number: int, _frame: FrameType | None) -> None:
        raise RequestTimeout

    previous: Any = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


class Progress:
    """A line on stderr every few seconds: done, total, rate, time left, temperature, power."""

    def __init__(self, total: int, done: int, sensors: Sensors) -> None:
        self.total = total
        self.sensors = sensors
        self.first = done
        self.started = self.reported = time.monotonic()
        if done:
            print(f"resume: {done} of {total} responses are there", file=sys.stderr, flush=True)

    def report(self, done: int) -> None:
        now = time.monotonic()
        if now - self.reported < PROGRESS_EVERY_S:
            return
        self.reported = now
        rate = (done - self.first) / (now - self.started)
        left_s = (self.total - done) / rate if rate else math.inf
        print(
            f"{done}/{self.total} responses, {rate:.2f} per s, {left_s:.0f} s left"
            f"{describe(self.sensors.sample())}",
            file=sys.stderr,
            flush=True,
        )

    def finish(self, done: int) -> None:
        took_s = time.monotonic() - self.started
        print(f"{done}/{self.total} responses after {took_s:.1f} s", file=sys.stderr, flush=True)
