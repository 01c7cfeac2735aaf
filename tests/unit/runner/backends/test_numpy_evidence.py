"""Evidence and choice in numpy against exact arithmetic in Python and against torch."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from runner.backends._numpy_evidence import Evidence, best_ids, choose, penalize
from runner.contract import Request

ROWS = [[0.5, 2.0, -1.0, 2.0], [3.0, 0.0, 1.0, -2.0]]
REQUEST = Request("generate", [1], max_new_tokens=1)


def exact_logprobs(row: list[float]) -> list[float]:
    total = math.log(math.fsum(math.exp(x) for x in row))
    return [x - total for x in row]


def test_evidence_equals_exact_arithmetic() -> None:
    evidence = Evidence()
    evidence.add(np.array(ROWS[:1], dtype=np.float32), [1])
    evidence.add(np.array(ROWS[1:], dtype=np.float32), [2])
    fields = evidence.fields()
    first, second = map(exact_logprobs, ROWS)
    assert fields["token_logprobs"] == pytest.approx([first[1], second[2]], abs=1e-6)
    assert fields["margins"] == pytest.approx([0.0, 2.0], abs=1e-6)
    assert fields["top_ids"] == [[1, 3, 0], [0, 2, 1]]
    assert fields["top_logprobs"][1] == pytest.approx([second[k] for k in (0, 2, 1)], abs=1e-6)
    packed = b"".join(struct.pack("<4f", *row) for row in ROWS)
    assert fields["logits_sha256"] == hashlib.sha256(packed).hexdigest()
    assert evidence.loglikelihood == pytest.approx(first[1] + second[2], abs=1e-6)
    assert evidence.is_greedy is False


def test_a_tie_goes_to_the_lower_id_and_rows_stay_as_they_are() -> None:
    rows = np.array(ROWS, dtype=np.float32)
    assert best_ids(rows, 2).tolist() == [[1, 3], [0, 2]]
    assert rows.tolist() == ROWS


def test_half_precision_logits_are_hashed_as_fp32() -> None:
    evidence = Evidence()
    evidence.add(np.array(ROWS, dtype=np.float16), [1, 0])
    packed = b"".join(struct.pack("<4f", *row) for row in ROWS)
    assert evidence.fields()["logits_sha256"] == hashlib.sha256(packed).hexdigest()
    assert evidence.is_greedy is True


@pytest.mark.parametrize(
    ("settings", "odds"),
    [
        ({"temperature": 1.0}, [0.1, 0.4, 0.3, 0.2]),
        ({"temperature": 1.0, "top_k": 2}, [0, 4 / 7, 3 / 7, 0]),
        ({"temperature": 1.0, "top_p": 0.5}, [0, 4 / 7, 3 / 7, 0]),
        ({"temperature": 0.0}, [0, 1, 0, 0]),
    ],
)
def test_draws_have_the_asked_frequencies(settings: dict[str, float], odds: list[float]) -> None:
    scores = np.log(np.array([0.1, 0.4, 0.3, 0.2], dtype=np.float32))
    request = replace(REQUEST, **settings)
    generator = np.random.default_rng(5)
    draws = [choose(scores, request, generator) for _ in range(2000)]
    found = [draws.count(k) / len(draws) for k in range(4)]
    assert found == pytest.approx(odds, abs=0.04)
    assert all(share == 0 for share, chance in zip(found, odds, strict=True) if chance == 0)


def test_the_repetition_penalty_is_that_of_the_torch_backend() -> None:
    torch = pytest.importorskip("torch")
    from runner.backends._torch_generate import penalize as by_torch

    scores, history = ROWS[0], [2, 3, 3]
    expected = by_torch(torch.tensor([scores]), torch.tensor([history]), 1.5)[0].tolist()
    found = penalize(np.array(scores, dtype=np.float32), history, 1.5)
    assert found.tolist() == pytest.approx(expected, abs=1e-7)
    assert penalize(found, history, 1.0) is found
