"""How requests become batches and rows: pure functions of the requests and a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from runner.contract import KINDS, Request

Row = tuple[list[int], list[int]]
"""Context ids and the ids to score after them."""


def plan_batches(requests: Iterable[Request], batch_size: int) -> list[list[Request]]:
    """Cut the requests into batches of one kind each, kind by kind, in file order."""
    ordered = list(requests)
    return [
        batch for kind in KINDS for batch in cut((r for r in ordered if r.kind == kind), batch_size)
    ]


def plan_shared(requests: Iterable[Request], batch_size: int) -> list[list[Request]]:
    """As plan_batches, but log-likelihood requests of one prompt stand together.

    A batch holds at most `batch_size` continuations, all of the same prompt; prompts keep the
    order of their first appearance.
    """
    ordered = list(requests)
    groups: dict[tuple[int, ...], list[Request]] = {}
    for request in ordered:
        if request.kind == "loglikelihood":
            groups.setdefault(tuple(request.prompt_ids), []).append(request)
    shared = [batch for group in groups.values() for batch in cut(group, batch_size)]
    rest = [request for request in ordered if request.kind != "loglikelihood"]
    return shared + plan_batches(rest, batch_size)


def cut(items: Iterable[Request], size: int) -> list[list[Request]]:
    """Cut into lists of `size`; the last may be shorter."""
    iterator = iter(items)
    return list(iter(lambda: list(islice(iterator, size)), []))


def cut_windows(request: Request, window: int | None) -> list[Row]:
    """Return the rows to score: one, or disjoint windows where rolling text exceeds the model.

    Windows follow lm-eval's rolling rule: each predicts up to `window` new tokens; the last one
    is filled up with earlier tokens as context.
    """
    context, text = request.prompt_ids, request.continuation_ids
    if window is None or len(context) + len(text) - 1 <= window:
        return [(context, text)]
    rows: list[Row] = [(context[-1:], text[:window])]
    done = window
    while done < len(text):
        count = min(len(text) - done, window)
        end = done + count
        start = end - window - 1
        rows.append((text[start:done], text[done:end]))
        done = end
    return rows
