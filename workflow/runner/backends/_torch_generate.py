"""Generation in left-padded batches; text is cut exactly as stock lm-eval cuts it."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from runner.backends._torch_evidence import Evidence
from runner.backends._torch_model import Loaded
from runner.contract import FinishReason, Request, Response

LOOKBACK_TOKENS = 2
"""Tokens decoded beyond a stop string's own length: it may be written with other tokens."""


class Row:
    """One request while it is being generated; its evidence ends when it ends."""

    def __init__(self, request: Request, loaded: Loaded) -> None:
        self.request = request
        self.loaded = loaded
        room = (loaded.window or request.max_new_tokens + len(request.prompt_ids)) - len(
            request.prompt_ids
        )
        self.limit = min(request.max_new_tokens, room)
        self.evidence = Evidence()
        self.ids: list[int] = []
        self.finish: FinishReason | None = None
        self.generator = torch.Generator().manual_seed(draw_seed(request))
        self.stops = stop_strings(request, loaded.tokenizer)
        self.stop_lengths = [
            len(loaded.tokenizer.encode(stop, add_special_tokens=False)) + LOOKBACK_TOKENS
            for stop in self.stops
        ]

    def extend(self, logits: torch.Tensor, scores: torch.Tensor) -> None:
        """Choose the next token by `scores` [vocab], keep the evidence of `logits` [vocab]."""
        token = choose(scores, self.request, self.generator)
        self.ids.append(token)
        self.evidence.add(logits.unsqueeze(0), [token])
        if token in self.loaded.eos_ids:
            self.finish = "eos"
        elif self._has_stopped():
            self.finish = "stop"
        elif len(self.ids) >= self.limit:
            self.finish = "length"

    def _has_stopped(self) -> bool:
        decode = self.loaded.tokenizer.decode
        return any(
            stop in decode(self.ids[-length:])
            for stop, length in zip(self.stops, self.stop_lengths, strict=True)
        )

    def answer(self) -> Response:
        """Return the response; `token_ids` include a final end-of-text token."""
        if self.finish == "length" and self.limit < self.request.max_new_tokens:
            text = f"the model's window of {self.loaded.window} ended the text"
            return Response(self.request.request_id, "truncated", error=text)
        text = self.loaded.tokenizer.decode(self.ids, skip_special_tokens=True)
        for stop in self.stops:
            text = text.split(stop)[0]
        return Response(
            self.request.request_id,
            "ok",
            token_ids=self.ids,
            text=text,
            finish_reason=self.finish,
            **self.evidence.fields(),
        )


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
                row.extend(last[index], scores[index])
                # An unfinished row feeds its token on; an ended one feeds padding.
        ids = torch.tensor(
            [[row.ids[-1] if row.finish is None else loaded.pad_id] for row in rows],
            device=loaded.device,
        )
        history = torch.cat([history, ids], dim=1)
        mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
        positions = positions[:, -1:] + 1
    return [row.answer() for row in rows]


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


def draw_seed(request: Request) -> int:
    """Return a 63-bit seed of the request's own: equal in every batch, another for each repeat."""
    text = f"{request.sampling_seed}/{request.repeat}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stop_strings(request: Request, tokenizer: Any) -> list[str]:
    """Return the request's stop strings and the end-of-text string, as lm-eval adds it."""
    eos = tokenizer.decode(tokenizer.eos_token_id)
    return list(dict.fromkeys(stop for stop in [*request.until, eos] if stop))
