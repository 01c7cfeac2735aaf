"""The canary of a backend that only writes text."""

from __future__ import annotations

from typing import Any

import pytest

from runner.canary import CanaryFailure, check_canary
from runner.contract import Request, Response

TEXT = [3, 1, 4, 1, 5, 9, 2, 6]
CANARY: dict[str, Any] = {
    "requests": [Request("loglikelihood", [0], TEXT).to_json()],
    # The reference is sure of every other token.
    "token_logprobs": [[-0.01, -2.0] * 4],
    "tolerance_nats": 0.02,
}


class Writer:
    """Continues the text right, except for what `fault` makes of it."""

    KINDS = ("generate",)
    window = None

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.asked: list[int] = []

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        return [[request] for request in requests]

    def generate(self, batch: list[Request]) -> list[Response]:
        return [Response(r.request_id, "ok", text=self.write(r)) for r in batch]

    def write(self, request: Request) -> str:
        place = len(request.prompt_ids) - 1
        self.asked.append(place)
        if self.fault == "raises":
            raise RuntimeError("no engine")
        right = self.decode([TEXT[place]])
        if self.fault == "prompt in output":
            return self.decode(request.prompt_ids) + right
        return "?" if self.fault == "other weights" else right

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))


def test_only_tokens_that_the_reference_is_sure_of_are_asked_for() -> None:
    writer: Any = Writer()
    report = check_canary(writer, CANARY, None)
    assert writer.asked == [0, 2, 4, 6]
    assert (report["passed"], report["sure"], report["agree"]) == (True, 4, 4)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("prompt in output", "0 of 4 tokens"),
        ("other weights", "0 of 4 tokens"),
        ("raises", "no engine"),
    ],
)
def test_a_wrong_writer_is_refused(fault: str, says: str) -> None:
    writer: Any = Writer(fault)
    with pytest.raises(CanaryFailure, match=says):
        check_canary(writer, CANARY, None)


def test_a_reference_that_is_sure_of_nothing_lets_nothing_pass() -> None:
    writer: Any = Writer()
    with pytest.raises(CanaryFailure, match="sure of no token"):
        check_canary(writer, {**CANARY, "token_logprobs": [[-2.0] * 8]}, None)
