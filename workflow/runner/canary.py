"""The canary: known log-probabilities that a cell must reproduce before it may measure anything.

It catches backends that return zeros or the same score for everything, that are one position
off, and integer kernels that are wrong (not merely different) under an instruction-set cap.
"""

from __future__ import annotations

import math
from typing import Any

from runner.backends import Backend
from runner.contract import KINDS, Request, Response
from runner.executor import NON_FINITE, run_batch

USUAL_CAUSE = (
    "Usual causes: a wrong kernel (an int8 kernel whose 16-bit intermediates saturate under this "
    "instruction-set cap), padding columns of the vocabulary inside the softmax, a default value "
    "for tokens outside a truncated top-k, or other weights."
)
OFF_BY_ONE = (
    "Usual cause: log-probabilities one position off (row i must be the distribution after token "
    "i, which scores token i+1); moved by one they fit the reference."
)
OVERFLOW = "Usual cause: an overflow in 16 bits, or a token outside a truncated top-k."
NOT_MEASURED = (
    "Usual cause: a server that does not measure prompt tokens and fills in a constant "
    "(`local-completions` against trtllm-serve or llama-server)."
)


SURE_LOGPROB = math.log(0.9)
SURE_TOKENS = 16
SURE_SHARE = 0.75


class CanaryFailure(Exception):
    """The cell must not run; `report` holds what was measured."""

    def __init__(self, reason: str, report: dict[str, Any]) -> None:
        super().__init__(f"canary: {reason}")
        self.report = {**report, "passed": False, "reason": reason}


def check_canary(
    backend: Backend, canary: dict[str, Any], timeout_s: float | None, writes: bool = False
) -> dict[str, Any]:
    """Run the canary's requests under the cell's own plan and compare with the reference.

    `writes` says that the cell generates text: the first written token is then checked too.
    Returns {"passed", "mean_abs_diff_nats", "tolerance_nats", "n_tokens", "compared"}.
    Raises CanaryFailure.
    """
    if "loglikelihood" not in getattr(backend, "KINDS", KINDS):
        return check_text(backend, canary, timeout_s)
    requests = [Request.from_json(record) for record in canary["requests"]]
    expected: list[list[float]] = canary["token_logprobs"]
    tolerance = float(canary["tolerance_nats"])
    report: dict[str, Any] = {"tolerance_nats": tolerance, "n_requests": len(requests)}
    responses = _run(backend, requests, timeout_s)
    _refuse_impossible(responses, report)
    difference, compared = mean_abs_difference(responses, expected)
    report |= {
        "mean_abs_diff_nats": difference,
        "n_tokens": sum(map(len, expected)),
        "compared": compared,
    }
    if not difference <= tolerance:
        cause = OFF_BY_ONE if _fits_moved(responses, expected, tolerance) else USUAL_CAUSE
        raise CanaryFailure(
            f"mean absolute difference {difference:.4g} nats per token from the reference, "
            f"allowed {tolerance:.4g}. {cause}",
            report,
        )
    if writes:
        _refuse_foreign_text(backend, requests, timeout_s, report)
    return {**report, "passed": True}


def check_text(backend: Any, canary: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Canary of a backend that only writes: tokens the reference is sure of must be written.

    Where the reference gives a token of the texts more than nine tenths, greedy writing must
    continue with it. `backend.decode` turns ids into text. Returns {"passed", "compared", "sure",
    "agree", "mean_abs_diff_nats": None}. Raises CanaryFailure below SURE_SHARE.
    """
    sure: list[tuple[Request, int]] = []
    for record, row in zip(canary["requests"], canary["token_logprobs"], strict=True):
        request = Request.from_json(record)
        for place, (token, value) in enumerate(zip(request.continuation_ids, row, strict=True)):
            if value > SURE_LOGPROB:
                prompt = request.prompt_ids + request.continuation_ids[:place]
                sure.append((Request("generate", prompt, max_new_tokens=1), token))
    sure = sure[:: max(1, len(sure) // SURE_TOKENS)]
    report: dict[str, Any] = {"compared": "text", "sure": len(sure), "mean_abs_diff_nats": None}
    if not sure:
        raise CanaryFailure("the reference is sure of no token: nothing to compare", report)
    written = _run(backend, [request for request, _ in sure], timeout_s)
    agree = 0
    for response, (_, token) in zip(written, sure, strict=True):
        if response.status != "ok":
            raise CanaryFailure(f"writing ended as {response.status}: {response.error}", report)
        agree += response.text == backend.decode([token])
    report["agree"] = agree
    if agree < SURE_SHARE * len(sure):
        raise CanaryFailure(
            f"{agree} of {len(sure)} tokens that the reference is sure of were written. Usual "
            "cause: the prompt is included in the output, a chat template was applied, or other "
            "weights",
            report,
        )
    return {**report, "passed": True}


def _run(backend: Backend, requests: list[Request], timeout_s: float | None) -> list[Response]:
    by_id = {
        response.request_id: response
        for batch in backend.plan(requests)
        for response in run_batch(backend, batch, timeout_s)
    }
    return [by_id[request.request_id] for request in requests]


def mean_abs_difference(
    responses: list[Response], expected: list[list[float]]
) -> tuple[float, str]:
    """Mean over tokens of |log p - log p_ref|, and what it was taken over.

    A backend that gives sums only is compared by |sum - sum_ref|: a lower bound, because
    differences of opposite sign cancel in a sum.
    """
    count = sum(map(len, expected))
    if all(response.token_logprobs is not None for response in responses):
        total = 0.0
        for response, row in zip(responses, expected, strict=True):
            found = response.token_logprobs or []
            if len(found) != len(row):
                return math.inf, "tokens"
            total += sum(abs(a - b) for a, b in zip(found, row, strict=True))
        return total / count, "tokens"
    sums = zip(responses, expected, strict=True)
    return sum(abs((r.loglikelihood or 0.0) - sum(row)) for r, row in sums) / count, "sums"


def _fits_moved(responses: list[Response], expected: list[list[float]], tolerance: float) -> bool:
    """Whether the values fit the reference once they are moved by one position, either way."""
    rows = [(r.token_logprobs or [], row) for r, row in zip(responses, expected, strict=True)]
    for moved in (
        [(found[1:], row[:-1]) for found, row in rows],
        [(found[:-1], row[1:]) for found, row in rows],
    ):
        pairs = [pair for found, row in moved for pair in zip(found, row, strict=False)]
        if pairs and sum(abs(a - b) for a, b in pairs) / len(pairs) <= tolerance:
            return True
    return False


def _refuse_foreign_text(
    backend: Backend, requests: list[Request], timeout_s: float | None, report: dict[str, Any]
) -> None:
    """Refuse text that is not this model's: no first greedy token is the best by its own scores.

    One may differ by a tie or a repetition penalty, all of them cannot.
    """
    prompts = [request.prompt_ids for request in requests]
    asked = [Request("generate", prompt, max_new_tokens=1) for prompt in prompts]
    written = _run(backend, asked, timeout_s)
    for response in written:
        if response.status != "ok":
            raise CanaryFailure(f"writing ended as {response.status}: {response.error}", report)
    scored = [
        Request("loglikelihood", prompt, response.token_ids)
        for prompt, response in zip(prompts, written, strict=True)
        if response.token_ids
    ]
    flags = [response.is_greedy for response in _run(backend, scored, timeout_s)]
    if flags and not any(flags):
        raise CanaryFailure(
            f"none of {len(flags)} first written tokens is the best by the backend's own scores. "
            "Usual cause: the prompt is included in the output, or scoring and writing use "
            "different engines or settings",
            report,
        )


def _refuse_impossible(responses: list[Response], report: dict[str, Any]) -> None:
    """Refuse what no right backend can return, whatever the tolerance."""
    for response in responses:
        if response.status != "ok":
            cause = f". {OVERFLOW}" if response.error == NON_FINITE else ""
            raise CanaryFailure(
                f"a request ended as {response.status}: {response.error}{cause}", report
            )
        if response.loglikelihood is None:
            raise CanaryFailure("a request has no log-likelihood", report)
        if not response.loglikelihood < 0.0:
            raise CanaryFailure(
                f"log-likelihood {response.loglikelihood}; it must be below zero. {NOT_MEASURED}",
                report,
            )
    values = {response.loglikelihood for response in responses}
    if len(responses) > 1 and len(values) == 1:
        raise CanaryFailure(
            f"all {len(responses)} log-likelihoods equal {values.pop()}; "
            f"the backend does not look at its input. {NOT_MEASURED}",
            report,
        )
