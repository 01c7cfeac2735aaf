"""What backends share whose runtime gives log-probabilities of candidates, and no logits.

A position is what the runtime says of one token: log-probabilities (nats) by token id, of the
token itself and of the best ones. Nothing here was run on a GPU: what a runtime returns is checked
by its shape before it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from runner.backends._evidence import TOP
from runner.backends._folder import Folder
from runner.backends._writing import Writing, check_written, follow
from runner.contract import Request, Response
from runner.plan import cut_windows, plan_batches

Position = Mapping[int, float]
TIE = 1e-2
"""A greedy token may lie this far below the best candidate, nats: the runtime may round."""


class Engine(Protocol):
    """One loaded model; no cache of prefixes, one request at a time."""

    def score(self, ids: list[int]) -> list[Position]:
        """Return the positions [len(ids) - 1] of all tokens but the first."""
        ...

    def write(self, request: Request, eos_ids: list[int]) -> tuple[list[int], list[Position]]:
        """Write until an end-of-text token (kept), a stop string or the limit."""
        ...


class CandidatesBackend:
    """The part of a backend that does not depend on how its runtime is called."""

    EVIDENCE: ClassVar[tuple[str, ...]] = ("token_logprobs", "margins", "top_ids", "top_logprobs")
    engine: Engine
    folder: Folder
    options: dict[str, Any]
    version: str
    window: int | None

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        """One request a batch: what shares a batch changes the kernels."""
        return plan_batches(requests, 1)

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        """Score from the positions of the whole text."""
        return [self._score(request) for request in batch]

    def generate(self, batch: list[Request]) -> list[Response]:
        """Write with the runtime's own loop; the end is found by the rules of every backend."""
        return [self._write(request) for request in batch]

    def describe(self) -> dict[str, Any]:
        """Return version and options."""
        return {
            "evidence": list(self.EVIDENCE),
            "token_ids": "as generated, a final end-of-text token included",
            "log_softmax": "the runtime's own",
            "version": self.version,
            "options": self.options,
            "prefix_cache": False,
            "repetition_penalty": self.folder.repetition_penalty,
            "window": self.window,
        }

    def _score(self, request: Request) -> Response:
        tokens: list[int] = []
        positions: list[Position] = []
        for context, text in cut_windows(request, self.window):
            ids = context + text
            found = self.engine.score(ids)
            if len(found) != len(ids) - 1:
                raise ValueError(
                    f"{len(found)} positions for {len(ids)} tokens; usual cause: KV cache block "
                    "reuse (prefix caching), which measures a suffix only"
                )
            tokens += text
            positions += found[len(context) - 1 :]
        fields = evidence_of(tokens, positions, self.folder.vocab)
        return Response(
            request.request_id,
            "ok",
            loglikelihood=sum(fields["token_logprobs"]),
            is_greedy=[best[0] for best in fields["top_ids"]] == tokens,
            **fields,
        )

    def _write(self, request: Request) -> Response:
        folder = self.folder
        writing = Writing(request, folder.tokenizer, folder.eos_ids, self.window)
        written, positions = self.engine.write(request, sorted(folder.eos_ids))
        ids = check_written(written, request, folder.vocab)
        if len(positions) != len(ids):
            raise ValueError(f"{len(positions)} positions for {len(ids)} written tokens")
        follow(writing, ids)
        fields = evidence_of(writing.ids, positions[: len(writing.ids)], folder.vocab)
        if request.temperature == 0.0 and folder.repetition_penalty == 1.0:
            check_greedy(fields)
        return writing.answer(fields)


def evidence_of(tokens: Sequence[int], positions: Sequence[Position], vocab: int) -> dict[str, Any]:
    """Return evidence fields of Response for tokens [T] and their positions [T].

    Raises ValueError where a position lacks its token or the best candidates, or names a token
    that does not exist.
    """
    tops = []
    for place, (token, position) in enumerate(zip(tokens, positions, strict=True)):
        if bad := [one for one in position if not 0 <= one < vocab]:
            raise ValueError(f"candidate {bad[0]} is outside the vocabulary of {vocab}")
        if token not in position:
            raise ValueError(
                f"token {place} has no log-probability of its own; usual cause: a truncated top-k"
            )
        best = sorted(position.items(), key=lambda entry: (-entry[1], entry[0]))[:TOP]
        if len(best) < TOP:
            raise ValueError(f"token {place} has {len(best)} candidates; {TOP} were asked for")
        tops.append(best)
    return {
        "token_logprobs": [float(p[t]) for t, p in zip(tokens, positions, strict=True)],
        "margins": [float(best[0][1] - best[1][1]) for best in tops],
        "top_ids": [[token for token, _ in best] for best in tops],
        "top_logprobs": [[float(value) for _, value in best] for best in tops],
    }


def check_greedy(fields: Mapping[str, Any]) -> None:
    """Raise ValueError unless every greedy token is the best candidate of its own position."""
    pairs = zip(fields["token_logprobs"], fields["top_logprobs"], strict=True)
    for place, (own, best) in enumerate(pairs):
        if own < best[0] - TIE:
            raise ValueError(
                f"token {place} of a greedy text is not the best of its position; usual cause: "
                "positions one position off"
            )
