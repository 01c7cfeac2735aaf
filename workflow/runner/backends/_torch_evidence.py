"""Per-token evidence from logits rows: the same for scored and for generated tokens."""

from __future__ import annotations

import torch

from runner.backends._evidence import TOP, EvidenceLists


class Evidence(EvidenceLists):
    """Evidence from torch logits: the same for scored and for generated tokens."""

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
        margins = top.values[:, 0] - top.values[:, 1]
        rows = logits.float().cpu().contiguous().numpy().data
        self.extend(picked, margins, top.indices, top.values, rows)
