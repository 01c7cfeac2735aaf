"""A backend without a model: a fixed bigram table. For trying transports, disks and failures.

Next-token logits depend on the last token alone: logit[j] = ((7 i + 13 j + i j) mod 11) / 3 over a
vocabulary of 64 ids; id 0 ends a text, id k is the character chr(32 + k).
"""

from __future__ import annotations

import hashlib
import math
import struct
import time
from pathlib import Path
from typing import Any, ClassVar

from runner.backends._evidence import FULL_EVIDENCE
from runner.contract import CellSpec, FinishReason, Request, Response
from runner.options import Option, match_recipe, resolve_options
from runner.plan import plan_batches
from runner.runtime import Runtime

VOCAB = 64
EOS = 0
FAULTS = ("none", "zeros", "equal", "nan", "positive", "shifted", "raise", "hang")


class Backend:
    """Deterministic numbers in microseconds; `fault` makes it wrong in a chosen way."""

    RUNTIME: ClassVar[Runtime | None] = None
    OPTIONS: ClassVar[dict[str, Option]] = {
        "batch_size": Option(int, 1, minimum=1),
        "batch_sleep_ms": Option(int, 0, minimum=0),
        "fault": Option(str, "none", FAULTS),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = (
        {"weights": "fp32", "activations": "fp32", "compute": "fp32"},
    )
    EVIDENCE: ClassVar[tuple[str, ...]] = FULL_EVIDENCE

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        self.options = resolve_options(spec.options, self.OPTIONS)
        match_recipe(spec.recipe, self.PRECISIONS)
        self.window: int | None = 512

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        return plan_batches(requests, self.options["batch_size"])

    def describe(self) -> dict[str, Any]:
        return {"model": "bigram table", "evidence": list(self.EVIDENCE)}

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        self._misbehave()
        return [self._spoil(self._score(request)) for request in batch]

    def generate(self, batch: list[Request]) -> list[Response]:
        self._misbehave()
        return [self._write(request) for request in batch]

    def _misbehave(self) -> None:
        time.sleep(self.options["batch_sleep_ms"] / 1000)
        if self.options["fault"] == "raise":
            raise RuntimeError("the fake backend was told to fail")
        while self.options["fault"] == "hang":
            time.sleep(0.01)

    def _score(self, request: Request) -> Response:
        tokens = request.prompt_ids[-1:] + request.continuation_ids
        rows = [logits(token) for token in tokens[:-1]]
        chosen = tokens[:-1] if self.options["fault"] == "shifted" else tokens[1:]
        evidence = collect(rows, chosen)
        best = [row[0] for row in evidence["top_ids"]]
        return Response(
            request.request_id,
            "ok",
            loglikelihood=math.fsum(evidence["token_logprobs"]),
            is_greedy=best == request.continuation_ids,
            **evidence,
        )

    def _spoil(self, response: Response) -> Response:
        spoilt = {"zeros": 0.0, "equal": -1.0, "nan": math.nan, "positive": 1.0}
        value = spoilt.get(self.options["fault"])
        if value is None:
            return response
        count = len(response.token_logprobs or ())
        return Response(
            response.request_id, "ok", loglikelihood=value, token_logprobs=[value] * count
        )

    def _write(self, request: Request) -> Response:
        last = request.prompt_ids[-1]
        ids: list[int] = []
        rows: list[list[float]] = []
        finish: FinishReason = "length"
        text = ""
        while len(ids) < request.max_new_tokens:
            # The position keeps the greedy walk out of a short cycle.
            row = logits((last + len(ids)) % VOCAB)
            last = max(range(VOCAB), key=row.__getitem__)
            rows.append(row)
            ids.append(last)
            if last == EOS:
                finish = "eos"
                break
            text += chr(32 + last)
            if found := [stop for stop in request.until if stop in text]:
                text = min((text.split(stop)[0] for stop in found), key=len)
                finish = "stop"
                break
        return Response(
            request.request_id,
            "ok",
            token_ids=ids,
            text=text,
            finish_reason=finish,
            **collect(rows, ids),
        )


def logits(token: int) -> list[float]:
    """Return the row of next-token logits after `token`, shape [VOCAB]."""
    return [((7 * token + 13 * j + token * j) % 11) / 3 for j in range(VOCAB)]


def collect(rows: list[list[float]], chosen: list[int]) -> dict[str, Any]:
    """Return the evidence lists of Response for logits rows [T, VOCAB] and the chosen ids [T]."""
    logprobs = [_log_softmax(row) for row in rows]
    orders = [_best_first(row)[:3] for row in logprobs]
    tops = [[row[j] for j in order] for row, order in zip(logprobs, orders, strict=True)]
    packed = b"".join(struct.pack(f"<{VOCAB}f", *row) for row in rows)
    return {
        "token_logprobs": [row[j] for row, j in zip(logprobs, chosen, strict=True)],
        "margins": [top[0] - top[1] for top in tops],
        "top_ids": orders,
        "top_logprobs": tops,
        "logits_sha256": hashlib.sha256(packed).hexdigest(),
    }


def _best_first(row: list[float]) -> list[int]:
    return sorted(range(VOCAB), key=lambda j: (-row[j], j))


def _log_softmax(row: list[float]) -> list[float]:
    peak = max(row)
    total = peak + math.log(math.fsum(math.exp(x - peak) for x in row))
    return [x - total for x in row]
