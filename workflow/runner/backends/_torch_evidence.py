"""Per-token evidence from logits rows: the same for scored and for generated tokens."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

TOP = 3


class Evidence:
    """Collects the evidence of one request, row by row or in blocks of rows."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256()
        self.token_logprobs: list[float] = []
        self.margins: list[float] = []
        self.top_ids: list[list[int]] = []
        self.top_logprobs: list[list[float]] = []
        self.loglikelihood = 0.0
        self.is_greedy = True

    def add(self, logits: torch.Tensor, chosen: list[int]) -> None:
        """Add logits rows [T, vocab] of any dtype and the ids [T] chosen there.

        Log-softmax is taken in fp32; sum and argmax are those of stock lm-eval.
        """
        logprobs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
        ids = torch.tensor(chosen, device=logits.device)
        picked = logprobs.gather(1, ids.unsqueeze(-1)).squeeze(-1)
        top = logprobs.topk(TOP, dim=-1)
        self.loglikelihood += float(picked.sum())
        self.is_greedy &= bool((logprobs.argmax(dim=-1) == ids).all())
        self.token_logprobs += picked.tolist()
        self.margins += (top.values[:, 0] - top.values[:, 1]).tolist()
        self.top_ids += top.indices.tolist()
        self.top_logprobs += top.values.tolist()
        self.sha.update(logits.float().cpu().contiguous().numpy().data)

    def fields(self) -> dict[str, Any]:
        """Return the evidence as fields of Response."""
        return {
            "token_logprobs": self.token_logprobs,
            "margins": self.margins,
            "top_ids": self.top_ids,
            "top_logprobs": self.top_logprobs,
            "logits_sha256": self.sha.hexdigest(),
        }
