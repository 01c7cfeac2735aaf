"""Per-token evidence of one request, whatever library its logits come from."""

from __future__ import annotations

import hashlib
from typing import Any

from runner.contract import Request, Response

TOP = 3
"""How many candidates are kept at every position."""

FULL_EVIDENCE = ("token_logprobs", "margins", "top_ids", "top_logprobs", "logits_sha256")
"""What a backend can give that sees the logits of every position."""


class EvidenceLists:
    """Collects the evidence of one request in blocks of rows."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256()
        self.token_logprobs: list[float] = []
        self.margins: list[float] = []
        self.top_ids: list[list[int]] = []
        self.top_logprobs: list[list[float]] = []
        self.loglikelihood = 0.0
        self.is_greedy = True

    def extend(self, picked: Any, margins: Any, top_ids: Any, top: Any, rows: memoryview) -> None:
        """Add one block: arrays [T], [T], [T, TOP], [T, TOP] and the fp32 bytes of its logits."""
        self.token_logprobs += picked.tolist()
        self.margins += margins.tolist()
        self.top_ids += top_ids.tolist()
        self.top_logprobs += top.tolist()
        self.sha.update(rows)

    def fields(self) -> dict[str, Any]:
        """Return the evidence as fields of Response."""
        return {
            "token_logprobs": self.token_logprobs,
            "margins": self.margins,
            "top_ids": self.top_ids,
            "top_logprobs": self.top_logprobs,
            "logits_sha256": self.sha.hexdigest(),
        }

    def score(self, request: Request) -> Response:
        """Return the answer to a scored request."""
        return Response(
            request.request_id,
            "ok",
            loglikelihood=self.loglikelihood,
            is_greedy=self.is_greedy,
            **self.fields(),
        )
