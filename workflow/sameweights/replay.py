"""A replay LM: answers lm-eval's requests from responses that devices gave earlier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from runner.contract import Response
from sameweights.tokenizer import HubTokenizer

RequestKey = tuple[str, int, int]
"""(task, doc_id, request index)."""


class ReplayLM(HubTokenizer):
    """Returns recorded responses. Placeholders stand in for those that are not `ok`.

    The caller takes the items of `unmeasured` out afterwards: a placeholder is never a score.
    """

    def __init__(
        self, model_dir: Path, requests: pl.DataFrame, responses: Mapping[str, Response]
    ) -> None:
        super().__init__(model_dir)
        self.request_ids: dict[RequestKey, list[str]] = {}
        for task, doc_id, index, request_id in requests.select(
            "task", "doc_id", "request_index", "request_id"
        ).iter_rows():
            self.request_ids.setdefault((task, doc_id, index), []).append(request_id)
        self.use(responses)

    def use(self, responses: Mapping[str, Response]) -> None:
        """Answer from another run's responses from now on."""
        self.responses = responses
        self.unmeasured: dict[tuple[str, int], tuple[str, str]] = {}

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        return [
            (r.loglikelihood, bool(r.is_greedy))
            if r and r.loglikelihood is not None
            else (0.0, False)
            for r in map(self._next, _numbered(requests))
        ]

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        return [
            r.loglikelihood if r and r.loglikelihood is not None else 0.0
            for r in map(self._next, _numbered(requests))
        ]

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        return [
            r.text if r and r.text is not None else "" for r in map(self._next, _numbered(requests))
        ]

    def _next(self, numbered: tuple[Any, int]) -> Response | None:
        """Return the instance's response, or note why its document was not measured."""
        instance, repeat = numbered
        ids = self.request_ids[(instance.task_name, instance.doc_id, instance.idx)]
        response = self.responses.get(ids[repeat])
        if response is not None and response.status == "ok":
            return response
        status = response.status if response else "missing"
        reason = (response.error or "") if response else "no response"
        self.unmeasured.setdefault((instance.task_name, instance.doc_id), (status, reason))
        return None


def _numbered(requests: list[Any]) -> list[tuple[Any, int]]:
    """Pair each clone of an instance with the number of its repeat (clones stand together)."""
    seen: dict[int, int] = {}
    pairs = []
    for instance in requests:
        number = seen.get(id(instance), 0)
        seen[id(instance)] = number + 1
        pairs.append((instance, number))
    return pairs
