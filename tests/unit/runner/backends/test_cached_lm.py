"""Batches over a made-up engine that checks every mask it is given."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from runner.backends import fake
from runner.backends._cached_lm import generate_rows, mask_of, pad, score_rows
from runner.backends._folder import Folder, Tokenizer
from runner.contract import Request, Response


class Letters:
    """Encodes as the bigram table spells: id k is the character chr(32 + k)."""

    def encode(self, text: str, add_special_tokens: bool) -> Any:
        return type("Encoding", (), {"ids": [ord(c) - 32 for c in text]})

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return "".join(chr(32 + k) for k in ids if k or not skip_special_tokens)


class Engine:
    """The bigram table of the fake backend, one row a real token; noise where padding is."""

    def __init__(self, padding: Literal["left", "right"]) -> None:
        self.padding = padding
        self.lengths: Any = None

    def start(self, ids: Any, mask: Any, capacity: int) -> Any:
        assert capacity >= ids.shape[1]
        self.lengths, self.left = mask.sum(axis=1), capacity - ids.shape[1]
        return self._logits(ids, mask)

    def step(self, ids: Any, mask: Any) -> Any:
        assert ids.shape == (len(self.lengths), 1)
        assert (mask.sum(axis=1) == self.lengths + 1).all()
        self.lengths, self.left = mask.sum(axis=1), self.left - 1
        assert self.left >= 0
        end = mask[:, -1] if self.padding == "left" else mask[:, 0]
        assert end.all()
        return self._logits(ids, np.ones_like(ids))

    def _logits(self, ids: Any, mask: Any) -> Any:
        rows = np.array([[fake.logits(int(token)) for token in row] for row in ids])
        rows[mask == 0] = -7.0
        return rows.astype(np.float32)


@pytest.fixture
def folder() -> Folder:
    return Folder(40, fake.VOCAB, Tokenizer(Letters(), 0), frozenset({0}), 1.0)


def greedy(prompt: list[int], count: int) -> list[int]:
    ids = [prompt[-1]]
    while len(ids) <= count and (len(ids) == 1 or ids[-1] != 0):
        row = fake.logits(ids[-1])
        ids.append(max(range(fake.VOCAB), key=row.__getitem__))
    return ids[1:]


def numbers(response: Response) -> list[Any]:
    return [response.token_logprobs, response.margins, response.top_ids, response.logits_sha256]


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_unequal_length_are_written_as_if_alone(
    folder: Folder, side: Literal["left", "right"]
) -> None:
    prompts = [[5, 9, 3], [8], [2, 7, 11, 13, 4]]
    requests = [
        Request("generate", prompt, max_new_tokens=count)
        for prompt, count in zip(prompts, (4, 9, 2), strict=True)
    ]
    together = generate_rows(Engine(side), folder, requests)
    for request, response in zip(requests, together, strict=True):
        assert response.token_ids == greedy(request.prompt_ids, request.max_new_tokens)
        (alone,) = generate_rows(Engine(side), folder, [request])
        assert numbers(alone) == numbers(response)


@pytest.mark.parametrize("side", ["left", "right"])
def test_scores_are_those_of_the_table_in_any_cut(
    folder: Folder, side: Literal["left", "right"]
) -> None:
    requests = [
        Request("loglikelihood", [3, 4], [7, 9, 11]),
        Request("loglikelihood", [6], [2]),
        Request("loglikelihood_rolling", [0], [1 + k % 60 for k in range(95)]),
    ]
    for batch_size in (1, 2, 3):
        found = score_rows(Engine(side), folder, requests, batch_size)
        for request, response in zip(requests, found, strict=True):
            tokens = request.prompt_ids[-1:] + request.continuation_ids
            exact = fake.collect([fake.logits(t) for t in tokens[:-1]], tokens[1:])
            assert response.token_logprobs == pytest.approx(exact["token_logprobs"], abs=1e-5)
            assert response.logits_sha256 == exact["logits_sha256"]


def test_padding_stands_on_the_asked_side() -> None:
    ids, mask = pad([[5, 6], [7]], "left")
    assert (ids.tolist(), mask.tolist()) == ([[5, 6], [0, 7]], [[1, 1], [0, 1]])
    ids, mask = pad([[5, 6], [7]], "right")
    assert (ids.tolist(), mask.tolist()) == ([[5, 6], [7, 0]], [[1, 1], [1, 0]])
    assert mask_of(np.array([1, 3]), 4, "right").tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]
