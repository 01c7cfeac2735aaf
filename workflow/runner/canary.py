"""The canary: known log-probabilities that a cell must reproduce before it may measure anything.

It catches backends that return zeros or the same score for everything, that are one position
off, and integer kernels that are wrong (not merely different) under an instruction-set cap.
"""

from __future__ import annotations

import math
from typing import Any

from runner.backends import Backend
from runner.contract import Request, Response
from runner.executor import run_batch

USUAL_CAUSE = (
    "Usual causes: a wrong kernel (an int8 kernel whose 16-bit intermediates saturate under this "
    "instruction-set cap), log-probabilities one position off, or other weights."
)


class CanaryFailure(Exception):
    """The cell must not run; `report` holds what was measured."""

    def __init__(self, reason: str, report: dict[str, Any]) -> None:
        super().__init__(f"canary: {reason}")
        self.report = {**report, "passed": False, "reason": reason}


def check_canary(
    backend: Backend, canary: dict[str, Any], timeout_s: float | None
) -> dict[str, Any]:
    """Run the canary's requests under the cell's own plan and compare with the reference.

    Returns {"passed", "mean_abs_diff_nats", "tolerance_nats", "n_tokens", "compared"}.
    Raises CanaryFailure.
    """
    requests = [Request.from_json(record) for record in canary["requests"]]
    expected: list[list[float]] = canary["token_logprobs"]
    tolerance = float(canary["tolerance_nats"])
    report: dict[str, Any] = {"tolerance_nats": tolerance, "n_requests": len(requests)}
    by_id = {
        response.request_id: response
        for batch in backend.plan(requests)
        for response in run_batch(backend, batch, timeout_s)
    }
    responses = [by_id[request.request_id] for request in requests]
    _refuse_impossible(responses, report)
    difference, compared = mean_abs_difference(responses, expected)
    report |= {
        "mean_abs_diff_nats": difference,
        "n_tokens": sum(map(len, expected)),
        "compared": compared,
    }
    if not difference <= tolerance:
        raise CanaryFailure(
            f"mean absolute difference {difference:.4g} nats per token from the reference, "
            f"allowed {tolerance:.4g}. {USUAL_CAUSE}",
            report,
        )
    return {**report, "passed": True}


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


def _refuse_impossible(responses: list[Response], report: dict[str, Any]) -> None:
    """Refuse what no right backend can return, whatever the tolerance."""
    for response in responses:
        if response.status != "ok":
            raise CanaryFailure(f"a request ended as {response.status}: {response.error}", report)
        if response.loglikelihood is None:
            raise CanaryFailure("a request has no log-likelihood", report)
        if not response.loglikelihood < 0.0:
            raise CanaryFailure(
                f"log-likelihood {response.loglikelihood}; it must be below zero", report
            )
    values = {response.loglikelihood for response in responses}
    if len(responses) > 1 and len(values) == 1:
        raise CanaryFailure(
            f"all {len(responses)} log-likelihoods equal {values.pop()}; "
            "the backend does not look at its input",
            report,
        )
