"""The canary's reference is kept whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.contract import Request, Response, write_jsonl
from sameweights.canary import write_canary
from sameweights.errors import UserError

REQUESTS = [Request("loglikelihood", [1, 2], [3, 4]), Request("loglikelihood", [1], [5])]


def responses(path: Path, *rows: Response) -> Path:
    write_jsonl(path, (row.to_json() for row in rows))
    return path


def test_reference_values_stand_in_the_order_of_the_requests(tmp_path: Path) -> None:
    rows = [
        Response(REQUESTS[1].request_id, "ok", loglikelihood=-3.0, token_logprobs=[-3.0]),
        Response(REQUESTS[0].request_id, "ok", loglikelihood=-3.0, token_logprobs=[-1.0, -2.0]),
    ]
    write_canary(REQUESTS, responses(tmp_path / "r.jsonl", *rows), tmp_path / "canary.json")
    record = json.loads((tmp_path / "canary.json").read_text())
    assert record["token_logprobs"] == [[-1.0, -2.0], [-3.0]]
    assert [Request.from_json(r) for r in record["requests"]] == REQUESTS


def test_a_hole_in_the_reference_is_an_error(tmp_path: Path) -> None:
    row = Response(REQUESTS[0].request_id, "ok", loglikelihood=-3.0, token_logprobs=[-1.0, -2.0])
    with pytest.raises(UserError, match="no response"):
        write_canary(REQUESTS, responses(tmp_path / "r.jsonl", row), tmp_path / "canary.json")
    broken = Response(REQUESTS[1].request_id, "error", error="non-finite logits")
    with pytest.raises(UserError, match="non-finite logits"):
        write_canary(
            REQUESTS, responses(tmp_path / "r.jsonl", row, broken), tmp_path / "canary.json"
        )
    assert not (tmp_path / "canary.json").exists()
