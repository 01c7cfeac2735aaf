"""Changed items: answers cut at the first divergent token, ready for the browser to show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import duckdb

from sameweights.report.tables import Row, read_rows
from sameweights.report.wording import short

MAX_ITEMS = 2_000
MAX_BYTES = 1_200_000
"""Size of all items on the page; correctness flips come first, then wide margins."""

MAX_SAME = 600
MAX_REST = 1_200
MAX_PROMPT = 2_000
"""Characters shown; the whole text is in the warehouse."""

PAIRS = """
WITH shown AS (
    SELECT cell, min(replicate) AS replicate FROM measured GROUP BY cell
), own AS (
    SELECT i.* FROM measured_items i
    JOIN primary_metrics USING (task, filter, metric) JOIN shown USING (cell, replicate)
    WHERE i.status = 'ok' AND i.model = $model AND i.seed = $seed
), pair AS (
    SELECT i.task, i.doc_id, i.target, j.cell, i.request_ids[1] AS request_id,
           i.value AS value_a, i.answer_text AS text_a, i.answer_extracted AS extracted_a,
           j.value AS value_b, j.answer_text AS text_b, j.answer_extracted AS extracted_b,
           i.replicate AS replicate_a, j.replicate AS replicate_b,
           i.token_ids AS ids_a, j.token_ids AS ids_b,
           first_difference(i.token_ids, j.token_ids) AS divergence,
           CASE WHEN divergence IS NULL THEN i.margin ELSE i.margins[divergence + 1] END AS margin
    FROM own i JOIN own j USING (task, doc_id, filter, metric)
    WHERE i.cell = $reference AND j.cell <> i.cell
      AND (i.answer_tokens IS DISTINCT FROM j.answer_tokens
           OR i.answer_extracted IS DISTINCT FROM j.answer_extracted)
)
"""
"""Changed answers of the shown replicates."""

COUNT = f"{PAIRS} SELECT count(*) FROM pair"  # noqa: S608

ORDER = "value_a = value_b, {0}cell <> $target, margin DESC NULLS LAST, task, doc_id, {0}cell"

# Responses are looked up only for the items that the page holds.
CHANGED = f"""
{PAIRS}, first AS (SELECT * FROM pair ORDER BY {ORDER.format("")} LIMIT $limit)
SELECT first.*, p.top_ids AS top_a, p.top_logprobs AS logprobs_a,
       q.top_ids AS top_b, q.top_logprobs AS logprobs_b
FROM first
LEFT JOIN responses p ON p.cell = $reference AND p.replicate = replicate_a
                     AND p.request_id = first.request_id
LEFT JOIN responses q ON q.cell = first.cell AND q.replicate = replicate_b
                     AND q.request_id = first.request_id
ORDER BY {ORDER.format("first.")}
"""  # noqa: S608

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
    model = {"model": reference.split("/")[0], "seed": int(reference.rpartition("/s")[2])}
    words = {r["token_id"]: r["text"] for r in read_rows(db, WORDS, {"model": model["model"]})}
    total = db.execute(COUNT, {**model, "reference": reference}).fetchall()[0][0]
    values = {**model, "reference": reference, "target": target, "limit": MAX_ITEMS}
    rows = list(read_rows(db, CHANGED, values))
    shown = {**model, "tasks": [r["task"] for r in rows], "doc_ids": [r["doc_id"] for r in rows]}
    docs = {(r["task"], r["doc_id"]): r for r in read_rows(db, DOCS, shown)}
    cells = [reference, *dict.fromkeys(r["cell"] for r in rows)]
    choices = read_rows(db, CHOICES, {**shown, "cells": cells})
    lls = {(r["cell"], r["task"], r["doc_id"]): r["lls"] for r in choices}
    items: list[Row] = []
    prompts: dict[str, str] = {}
    size = 0
    for row in rows:
        doc = docs.get((row["task"], row["doc_id"]), {})
        item = describe_item(row, words)
        sides = [lls.get((cell, row["task"], row["doc_id"])) for cell in (reference, row["cell"])]
        if doc.get("choices") and all(sides):
            item["choices"] = [list(entry) for entry in zip(doc["choices"], *sides, strict=False)]
        key = f"{row['task']}/{row['doc_id']}"
        prompt = "" if key in prompts else _tail(doc.get("prompt") or "", MAX_PROMPT)
        size += len(prompt) + len(str(item))
        if size > MAX_BYTES:
            break
        items.append(item)
        prompts.setdefault(key, prompt)
    return {"reference": short(reference), "total": total, "items": items, "prompts": prompts}


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
