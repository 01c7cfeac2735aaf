"""Log-likelihoods: every row in full, or the prompt once and its continuations on its cache."""

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
    return [_answer(request, evidence[request.request_id]) for request in batch]


def score_shared(loaded: Loaded, batch: list[Request]) -> list[Response]:
    """Run the prompt that all requests of the batch share once, then all continuations at once.

    The first token of every continuation is scored on the prompt's last logits.
    """
    prompt = torch.tensor([batch[0].prompt_ids], device=loaded.device)
    tails = [request.continuation_ids[:-1] for request in batch]
    longest = max(map(len, tails))
    first, cache = loaded.forward(prompt, keep=1, use_cache=longest > 0)
    rest = first[:, :0].expand(len(batch), 0, -1)
    if longest:
        if len(batch) > 1:
            cache.batch_repeat_interleave(len(batch))
        ids = torch.tensor([tail + [0] * (longest - len(tail)) for tail in tails])
        rest, _ = loaded.forward(ids.to(loaded.device), cache=cache, use_cache=True)
    responses = []
    for request, tail, logits in zip(batch, tails, rest, strict=True):
        evidence = Evidence()
        evidence.add(torch.cat([first[0], logits[: len(tail)]]), request.continuation_ids)
        responses.append(_answer(request, evidence))
    return responses


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


def _answer(request: Request, evidence: Evidence) -> Response:
    return Response(
        request.request_id,
        "ok",
        loglikelihood=evidence.loglikelihood,
        is_greedy=evidence.is_greedy,
        **evidence.fields(),
    )
