"""One generated answer, whatever the runtime: when it ends, and its text as lm-eval cuts it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from runner.contract import FinishReason, Request, Response

LOOKBACK_TOKENS = 2
"""Tokens decoded beyond a stop string's own length: it may be written with other tokens."""


class Writing:
    """The tokens of one request while they are being chosen.

    `tokenizer` has encode(text, add_special_tokens), decode(ids, skip_special_tokens) and
    eos_token_id; `window` is the most positions the model has (None: unknown).
    """

    def __init__(
        self, request: Request, tokenizer: Any, eos_ids: frozenset[int], window: int | None
    ) -> None:
        self.request = request
        self.tokenizer = tokenizer
        self.eos_ids = eos_ids
        self.window = window
        room = request.max_new_tokens if window is None else window - len(request.prompt_ids)
        self.limit = min(request.max_new_tokens, room)
        self.ids: list[int] = []
        self.finish: FinishReason | None = None
        self.stops = stop_strings(request, tokenizer)
        self.stop_lengths = [
            len(tokenizer.encode(stop, add_special_tokens=False)) + LOOKBACK_TOKENS
            for stop in self.stops
        ]

    def extend(self, token: int) -> None:
        """Append the chosen token and see whether the answer has ended."""
        self.ids.append(token)
        if token in self.eos_ids:
            self.finish = "eos"
        elif self._has_stopped():
            self.finish = "stop"
        elif len(self.ids) >= self.limit:
            self.finish = "length"

    def _has_stopped(self) -> bool:
        decode = self.tokenizer.decode
        return any(
            stop in decode(self.ids[-length:], skip_special_tokens=False)
            for stop, length in zip(self.stops, self.stop_lengths, strict=True)
        )

    def answer(self, evidence: dict[str, Any]) -> Response:
        """Return the response; `token_ids` include a final end-of-text token."""
        if self.finish == "length" and self.limit < self.request.max_new_tokens:
            text = f"the model's window of {self.window} ended the text"
            return Response(self.request.request_id, "truncated", error=text)
        text = self.tokenizer.decode(self.ids, skip_special_tokens=True)
        for stop in self.stops:
            text = text.split(stop)[0]
        return Response(
            self.request.request_id,
            "ok",
            token_ids=self.ids,
            text=text,
            finish_reason=self.finish,
            **evidence,
        )


def check_written(ids: Sequence[int], request: Request, vocab: int) -> list[int]:
    """Return the ids an engine wrote; raises ValueError for none, too many, or unknown ones."""
    found = [int(token) for token in ids]
    if not found:
        raise ValueError("the engine wrote no token")
    if len(found) > request.max_new_tokens:
        raise ValueError(
            f"{len(found)} tokens were written, {request.max_new_tokens} asked for; usual cause: "
            "the prompt is included in the output"
        )
    if bad := [token for token in found if not 0 <= token < vocab]:
        raise ValueError(f"written token {bad[0]} is outside the vocabulary of {vocab}")
    return found


def follow(writing: Writing, ids: Sequence[int]) -> None:
    """Take an engine's ids up to their end by our own rules; raises ValueError without an end."""
    for token in ids:
        writing.extend(token)
        if writing.finish:
            return
    raise ValueError(
        f"the engine ended after {len(ids)} of {writing.request.max_new_tokens} tokens, last "
        f"{list(ids[-1:])}, without an end that this request names; usual cause: the engine's "
        "own end_id, or its longest sequence"
    )


def draw_seed(request: Request) -> int:
    """Return a 63-bit seed of the request's own: equal in every batch, another for each repeat."""
    text = f"{request.sampling_seed}/{request.repeat}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stop_strings(request: Request, tokenizer: Any) -> list[str]:
    """Return the request's stop strings and the end-of-text string, as lm-eval adds it."""
    eos = tokenizer.decode(tokenizer.eos_token_id)
    return list(dict.fromkeys(stop for stop in [*request.until, eos] if stop))
