"""What the page shows, read from the warehouse and the comparison; no logic of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

MAX_CHANGED_ITEMS = 400
"""Changed items on the page: correctness flips first, then by the reference's margin."""

MAX_TEXT = 2_000
"""Characters of one answer or prompt on the page; the whole text is in the warehouse."""

CHANGED = """
WITH chosen AS (
    SELECT task, filter, min(metric) AS metric FROM items GROUP BY task, filter
)
SELECT i.task, i.doc_id, i.filter, i.metric, i.target, i.value, i.answer_text,
       i.answer_tokens, i.margin, j.cell AS cell_b, j.value AS value_b,
       j.answer_text AS answer_text_b, d.prompt, p.token_ids, p.margins, q.token_ids AS ids_b
FROM items i
JOIN chosen USING (task, filter, metric)
JOIN items j USING (task, doc_id, filter, metric, model, seed)
LEFT JOIN docs d USING (task, doc_id, model, seed)
LEFT JOIN responses p
  ON p.cell = i.cell AND p.replicate = 0 AND p.request_id = i.request_ids[1]
LEFT JOIN responses q
  ON q.cell = j.cell AND q.replicate = 0 AND q.request_id = j.request_ids[1]
WHERE i.cell = ? AND j.cell <> i.cell AND i.replicate = 0 AND j.replicate = 0
  AND i.status = 'ok' AND j.status = 'ok' AND i.answer_tokens <> j.answer_tokens
ORDER BY i.value = j.value, j.cell <> ?, i.margin NULLS LAST, i.task, i.doc_id, j.cell
LIMIT ?
"""

SCORES = """
SELECT r.cell, r.replicate, r.outcome, r.reason, i.task, i.metric, i.filter,
       count(i.value) AS n, count(*) FILTER (i.task IS NOT NULL) AS planned,
       avg(i.value) AS score
FROM runs r LEFT JOIN items i USING (cell, replicate)
GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True)
class Answer:
    """One answer cut in three for display: shared beginning, first divergent token, rest."""

    same: str
    token: str
    rest: str


def read_meta(db: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return reference, target and devices of the matrix."""
    rows = db.sql("SELECT key, value FROM meta").fetchall()
    return {key: json.loads(value) for key, value in rows}


def read_rows(db: duckdb.DuckDBPyConnection, query: str, *values: Any) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    found = db.execute(query, list(values))
    names = [column[0] for column in found.description or []]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def read_comparison(path: Path) -> list[dict[str, Any]]:
    """Return the rows of comparison.parquet."""
    with duckdb.connect() as db:
        return read_rows(db, "SELECT * FROM read_parquet(?)", str(path))


def read_changed(
    db: duckdb.DuckDBPyConnection, reference: str, target: str
) -> list[dict[str, Any]]:
    """Return the items whose answer differs from the reference cell's, ready to show."""
    texts = dict(db.sql("SELECT token_id, any_value(text) FROM vocabulary GROUP BY 1").fetchall())
    rows = read_rows(db, CHANGED, reference, target, MAX_CHANGED_ITEMS)
    for row in rows:
        index = _first_difference(row["token_ids"], row["ids_b"])
        row["index"] = index
        margins = row["margins"] or []
        if index is not None:
            row["margin"] = margins[index] if index < len(margins) else None
        row["a"] = _cut(row["answer_text"], row["answer_text_b"], row["token_ids"], index, texts)
        row["b"] = _cut(row["answer_text_b"], row["answer_text"], row["ids_b"], index, texts)
        row["prompt"] = (row["prompt"] or "")[:MAX_TEXT]
        row["kind"] = _kind(row["value"], row["value_b"])
    return rows


def _kind(before: float, after: float) -> str:
    if before == after:
        return "answer only"
    return "lost" if after < before else "won"


def _first_difference(left: list[int] | None, right: list[int] | None) -> int | None:
    if not left or not right or left == right:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def _cut(
    own: str, other: str, ids: list[int] | None, index: int | None, texts: dict[int, str]
) -> Answer:
    """Cut an answer at its first divergent token; a choice differs as a whole."""
    own = own[:MAX_TEXT]
    if index is None or ids is None:
        return Answer("", own, "")
    shared = next((n for n, (x, y) in enumerate(zip(own, other, strict=False)) if x != y), None)
    same = own[: min(len(own), len(other)) if shared is None else shared]
    token = texts.get(ids[index], "") if index < len(ids) else ""
    # Tokens may share their first characters: step back to where this token begins.
    for back in range(min(len(token), len(same)), -1, -1):
        start = len(same) - back
        if token and own[start:].startswith(token):
            return Answer(own[:start], token, own[start + len(token) :])
    return Answer(same, own[len(same) : len(same) + 1] or "⏎", own[len(same) + 1 :])
