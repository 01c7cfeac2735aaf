"""Changed items: answers cut at the first divergent token, ready for the browser to show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import duckdb

from sameweights.report.changed import Changed, find_changed
from sameweights.report.tables import Row, read_rows
from sameweights.report.wording import short

MAX_ITEMS = 2_000
MAX_BYTES = 1_200_000
"""Size of all items on the page; correctness flips come first, then wide margins."""

MAX_SAME = 600
MAX_REST = 1_200
MAX_PROMPT = 2_000
"""Characters shown; the whole text is in the warehouse."""

WORDS = "SELECT token_id, text FROM vocabulary WHERE model = $model"
SHOWN = "(SELECT DISTINCT unnest($tasks) AS task, unnest($doc_ids) AS doc_id) AS shown"
DOCS = f"""
SELECT docs.* FROM docs JOIN {SHOWN} USING (task, doc_id) WHERE model = $model AND seed = $seed
"""  # noqa: S608

CHOICES = f"""
SELECT r.cell, q.task, q.doc_id, list(r.loglikelihood ORDER BY q.request_index) AS lls
FROM requests q
JOIN {SHOWN} USING (task, doc_id)
JOIN responses r USING (request_id)
WHERE q.kind = 'loglikelihood' AND q.model = $model AND q.seed = $seed
  AND (r.cell, r.replicate) IN (
      SELECT (cell, min(replicate)) FROM measured
      WHERE cell IN (SELECT unnest($cells)) GROUP BY cell
  )
GROUP BY ALL
"""  # noqa: S608


@dataclass(frozen=True)
class Answer:
    """One answer cut in three for display: shared beginning, first divergent token, rest."""

    same: str
    token: str
    rest: str

    def to_json(self) -> list[str]:
        same, rest = self.same, self.rest
        if len(same) > MAX_SAME:
            same = f"… {len(same) - MAX_SAME} more characters alike …\n{same[-MAX_SAME:]}"
        return [same, _head(self.token, MAX_REST), _head(rest, MAX_REST)]


def read_changed(db: duckdb.DuckDBPyConnection, reference: str, target: str) -> dict[str, Any]:
    """Return the items whose answer differs from the reference cell's, as the page's JSON.

    `total` counts all of them; `items` holds as many as fit the page.
    """
    changed = find_changed(db, reference, target)
    return {**lay_out(changed, changed.read_first(MAX_ITEMS), MAX_BYTES), "total": changed.total}


def lay_out(changed: Changed, rows: list[Row], max_bytes: float = math.inf) -> dict[str, Any]:
    """Return `items` and their `prompts` as the page's JSON, as many rows as fit `max_bytes`."""
    model, seed = changed.reference.split("/")[0], int(changed.reference.rpartition("/s")[2])
    words = {r["token_id"]: r["text"] for r in read_rows(changed.db, WORDS, {"model": model})}
    shown = {"model": model, "seed": seed}
    shown |= {"tasks": [r["task"] for r in rows], "doc_ids": [r["doc_id"] for r in rows]}
    docs = {(r["task"], r["doc_id"]): r for r in read_rows(changed.db, DOCS, shown)}
    cells = [changed.reference, *dict.fromkeys(r["cell"] for r in rows)]
    choices = read_rows(changed.db, CHOICES, {**shown, "cells": cells})
    lls = {(r["cell"], r["task"], r["doc_id"]): r["lls"] for r in choices}
    items: list[Row] = []
    prompts: dict[str, str] = {}
    size = 0
    for row in rows:
        name = (row["task"], row["doc_id"])
        doc = docs.get(name, {})
        item = describe_item(row, words)
        sides = [lls.get((cell, *name)) for cell in (changed.reference, row["cell"])]
        if doc.get("choices") and all(sides):
            item["choices"] = [list(entry) for entry in zip(doc["choices"], *sides, strict=False)]
        key = "/".join(map(str, name))
        prompt = "" if key in prompts else _tail(doc.get("prompt") or "", MAX_PROMPT)
        size += len(prompt) + len(str(item))
        if size > max_bytes:
            break
        items.append(item)
        prompts.setdefault(key, prompt)
    return {"reference": short(changed.reference), "items": items, "prompts": prompts}


def describe_item(row: Row, words: dict[int, str]) -> Row:
    """Turn one row into what the page shows of it."""
    index = row["divergence"]
    item = {key: row[key] for key in ("task", "doc_id", "target", "margin")}
    item |= {"cell": short(row["cell"]), "kind": _kind(row["value_a"], row["value_b"])}
    item |= {"index": index, "level": _level(row)}
    for side, other in ("ab", "ba"):
        text, ids = row[f"text_{side}"] or "", row[f"ids_{side}"]
        answer = cut_answer(text, row[f"text_{other}"] or "", ids, index, words)
        item[side] = answer.to_json()
        item[f"extracted_{side}"] = _head(row[f"extracted_{side}"] or "", 200)
        item[f"value_{side}"] = row[f"value_{side}"]
        item[f"top_{side}"] = _candidates(row[f"top_{side}"], row[f"logprobs_{side}"], index, words)
    return item


def _kind(before: float, after: float) -> str:
    if before == after:
        return {0.0: "both wrong", 1.0: "both right"}.get(before, "same score")
    return "lost" if after < before else "won"


def _level(row: Row) -> str:
    """The coarsest view of an answer in which it changed."""
    if row["extracted_a"] != row["extracted_b"]:
        return "extracted answer"
    if row["text_a"] != row["text_b"]:
        return "text"
    return "tokens only"


def label_items(classes: Row | None) -> dict[tuple[str, int], str]:
    """Class by (task, doc_id): what changes the item's answer.

    `classes`: of the attribution, with `items` (task, doc_id, filter) and their `labels`.
    """
    found = classes or {}
    keys = ((task, doc_id) for task, doc_id, _ in found.get("items", []))
    return dict(zip(keys, found.get("labels", []), strict=True))


def _candidates(
    ids: list[list[int]] | None,
    logprobs: list[list[float]] | None,
    index: int | None,
    words: dict[int, str],
) -> list[tuple[str, float]]:
    """The two likeliest tokens at the divergence with their probabilities."""
    if index is None or not ids or not logprobs or index >= min(len(ids), len(logprobs)):
        return []
    pairs = zip(ids[index][:2], logprobs[index][:2], strict=False)
    return [(words.get(i, f"#{i}"), math.exp(min(logprob, 0.0))) for i, logprob in pairs]


def cut_answer(
    own: str, other: str, ids: list[int] | None, index: int | None, words: dict[int, str]
) -> Answer:
    """Cut an answer at its first divergent token; a choice differs as a whole."""
    if index is None or ids is None:
        return Answer("", own, "")
    token = words.get(ids[index], "") if index < len(ids) else ""
    prefix = "".join(words.get(i, "") for i in ids[:index])
    if own.startswith(prefix + token):
        return Answer(prefix, token, own[len(prefix) + len(token) :])
    if prefix.startswith(own):
        # The token lies behind the stop string, where the text was cut.
        return Answer(own, token, "")
    return _cut_by_text(own, other, token)


def _cut_by_text(own: str, other: str, token: str) -> Answer:
    """Where tokens do not spell the text (a character over two tokens), characters decide."""
    pairs = enumerate(zip(own, other, strict=False))
    end = next((n for n, (x, y) in pairs if x != y), min(len(own), len(other)))
    for back in range(min(len(token), end), -1, -1):
        start = end - back
        if token and own.startswith(token, start):
            return Answer(own[:start], token, own[start + len(token) :])
    return Answer(own[:end], own[end : end + 1], own[end + 1 :])


def _head(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… {len(text) - limit} more characters"


def _tail(text: str, limit: int) -> str:
    """The question stands at a prompt's end."""
    return text if len(text) <= limit else f"{len(text) - limit} characters before …{text[-limit:]}"
