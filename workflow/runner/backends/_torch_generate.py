"""Generation in left-padded batches."""

from __future__ import annotations

import torch

from runner.backends._torch_evidence import Evidence
from runner.backends._torch_model import Loaded
from runner.backends._writing import Writing, draw_seed
from runner.contract import Request, Response


class Row(Writing):
    """One request while it is being generated; its evidence ends when it ends."""

    def __init__(self, request: Request, loaded: Loaded) -> None:
        super().__init__(request, loaded.tokenizer, loaded.eos_ids, loaded.window)
        self.evidence = Evidence()
        self.generator = torch.Generator().manual_seed(draw_seed(request))

    def choose(self, logits: torch.Tensor, scores: torch.Tensor) -> None:
        """Choose the next token by `scores` [vocab], keep the evidence of `logits` [vocab]."""
        token = choose(scores, self.request, self.generator)
        self.evidence.add(logits.unsqueeze(0), [token])
        self.extend(token)


def generate_batch(loaded: Loaded, batch: list[Request]) -> list[Response]:
    """Generate for all requests of a batch until the last has ended.

    Rows that have ended stay in the batch as padding: the batch's shape, and with it the choice
    of kernels, does not depend on when they end.
    """
    rows = [Row(request, loaded) for request in batch]
    longest = max(len(request.prompt_ids) for request in batch)
    pads = [longest - len(request.prompt_ids) for request in batch]
    prompts = [[loaded.pad_id] * n + r.prompt_ids for n, r in zip(pads, batch, strict=True)]
    history = torch.tensor(prompts, device=loaded.device)
    mask = torch.tensor([[0] * n + [1] * (longest - n) for n in pads], device=loaded.device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    ids, cache = history, None
    while any(row.finish is None for row in rows):
        logits, cache = loaded.forward(
            ids, cache=cache, keep=1, mask=mask, positions=positions, use_cache=True
        )
        last = logits[:, -1]
        scores = penalize(last.float(), history, loaded.repetition_penalty)
        for index, row in enumerate(rows):
            if row.finish is None:
                row.choose(last[index], scores[index])
                # An unfinished row feeds its token on; an ended one feeds padding.
        ids = torch.tensor(
            [[row.ids[-1] if row.finish is None else loaded.pad_id] for row in rows],
            device=loaded.device,
        )
        history = torch.cat([history, ids], dim=1)
        mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
        positions = positions[:, -1:] + 1
    return [row.answer(row.evidence.fields()) for row in rows]


def choose(scores: torch.Tensor, request: Request, generator: torch.Generator) -> int:
    """Return the argmax of `scores` [vocab], or a draw if the request has a temperature."""
    if request.temperature == 0.0:
        return int(scores.argmax())
    scaled = scores.cpu() / request.temperature
    if request.top_k > 0:
        floor = scaled.topk(min(request.top_k, scaled.numel())).values[-1]
        scaled = scaled.masked_fill(scaled < floor, -torch.inf)
    probabilities = torch.softmax(scaled, dim=-1)
    if request.top_p < 1.0:
        ordered, order = probabilities.sort(descending=True, stable=True)
        beyond = ordered.cumsum(-1) - ordered >= request.top_p
        probabilities[order[beyond]] = 0.0
    return int(torch.multinomial(probabilities, 1, generator=generator))


def penalize(scores: torch.Tensor, history: torch.Tensor, penalty: float) -> torch.Tensor:
    """Apply the model folder's repetition penalty (Keskar et al. 2019, section 4.1)."""
    if penalty == 1.0:
        return scores
    seen = scores.gather(1, history)
    return scores.scatter(1, history, torch.where(seen < 0, seen * penalty, seen / penalty))
