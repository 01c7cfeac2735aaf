"""Log-likelihoods: every row in full, or a prompt once with all its continuations behind it."""

from __future__ import annotations

import torch

from runner.backends._torch_evidence import Evidence
from runner.backends._torch_model import Loaded
from runner.contract import Request, Response
from runner.plan import Row, cut_windows


def score_independent(
    loaded: Loaded, batch: list[Request], batch_size: int, padding_side: str
) -> list[Response]:
    """Run every (prompt, continuation) in full, padded to the longest, as stock lm-eval does."""
    rows = [(request, row) for request in batch for row in cut_windows(request, loaded.window)]
    evidence = {request.request_id: Evidence() for request in batch}
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        logits = _run_rows(loaded, [row for _, row in part], padding_side)
        for (request, (_, continuation)), row_logits in zip(part, logits, strict=True):
            evidence[request.request_id].add(row_logits, continuation)
    return [evidence[request.request_id].score(request) for request in batch]


def score_shared(loaded: Loaded, batch: list[Request]) -> list[Response]:
    """Run the prompt that all requests of the batch share once, with their continuations behind.

    One row holds the prompt and then every continuation without its last token. A mask lets a
    continuation see the prompt and itself; its positions start where the prompt ends. The first
    token of every continuation is scored on the prompt's last logits.
    """
    prompt = batch[0].prompt_ids
    tails = [request.continuation_ids[:-1] for request in batch]
    row = prompt + [token for tail in tails for token in tail]
    mask = positions = None
    if len(row) > len(prompt):
        mask, positions = share_prefix(len(prompt), list(map(len, tails)), loaded.model.dtype)
        mask, positions = mask.to(loaded.device), positions.to(loaded.device)
    logits, _ = loaded.forward(
        torch.tensor([row], device=loaded.device),
        keep=len(row) - len(prompt) + 1,
        mask=mask,
        positions=positions,
    )
    responses, start = [], 1
    for request, tail in zip(batch, tails, strict=True):
        own = torch.cat([logits[0, :1], logits[0, start : start + len(tail)]])
        start += len(tail)
        evidence = Evidence()
        evidence.add(own, request.continuation_ids)
        responses.append(evidence.score(request))
    return responses


def share_prefix(
    prompt: int, tails: list[int], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the additive mask [1, 1, N, N] and the positions [1, N] of prompt and tails."""
    lengths = torch.tensor([prompt, *tails])
    segment = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    visible = (segment == segment[:, None]) | (segment == 0)
    visible &= torch.ones_like(visible).tril()
    mask = torch.zeros(visible.shape, dtype=dtype)
    mask.masked_fill_(~visible, torch.finfo(dtype).min)
    positions = [*range(prompt), *(prompt + k for tail in tails for k in range(tail))]
    return mask[None, None], torch.tensor([positions])


def _run_rows(loaded: Loaded, rows: list[Row], padding_side: str) -> list[torch.Tensor]:
    """Return the logits [len(continuation), vocab] of each row from one padded forward pass.

    On the right, padding needs no mask: causal attention never looks there. Positions are
    computed for the whole row, though fewer would do, so that bits equal stock lm-eval's.
    """
    inputs = [(context + continuation)[:-1] for context, continuation in rows]
    longest = max(map(len, inputs))
    mask = positions = None
    if padding_side == "left":
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in inputs])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in inputs])
        mask = mask.to(loaded.device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        ends = [longest] * len(rows)
    else:
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in inputs])
        ends = list(map(len, inputs))
    logits, _ = loaded.forward(ids.to(loaded.device), mask=mask, positions=positions)
    return [
        logits[index, end - len(continuation) : end]
        for index, (end, (_, continuation)) in enumerate(zip(ends, rows, strict=True))
    ]
