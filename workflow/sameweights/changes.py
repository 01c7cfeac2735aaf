"""Changed items: both answers to the same question, and where they part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from sameweights.compare import read_role

CHANGED = """
WITH chosen AS (
    SELECT task, filter, metric FROM (SELECT DISTINCT task, filter, metric FROM items)
    QUALIFY row_number() OVER (PARTITION BY task ORDER BY filter, metric) = 1
), measured AS (
    SELECT cell, min(replicate) AS replicate FROM items WHERE status = 'ok' GROUP BY cell
), own AS (
    SELECT i.*, concat_ws('/', device, backend, precision) AS name
    FROM items i JOIN chosen USING (task, filter, metric) JOIN measured USING (cell, replicate)
    WHERE i.status = 'ok'
), pair AS (
    SELECT a.task, a.doc_id, a.model, a.seed, a.cell AS cell_a, b.cell AS cell_b, a.target,
           a.value AS value_a, b.value AS value_b,
           a.answer_text AS text_a, b.answer_text AS text_b,
           a.answer_extracted AS extracted_a, b.answer_extracted AS extracted_b,
           a.replicate AS replicate_a, b.replicate AS replicate_b,
           a.margin AS choice_margin, a.request_ids[1] AS request_id, b.name = $target AS is_target
    FROM own a JOIN own b USING (task, doc_id, filter, metric, model, seed)
    WHERE a.name = $reference AND b.name <> $reference
      AND (a.answer_tokens IS DISTINCT FROM b.answer_tokens
           OR a.answer_extracted IS DISTINCT FROM b.answer_extracted)
), traced AS (
    SELECT pair.*, p.token_ids AS ids_a, q.token_ids AS ids_b, p.margins,
           p.top_ids AS ids_top_a, p.top_logprobs AS logprobs_top_a,
           q.top_ids AS ids_top_b, q.top_logprobs AS logprobs_top_b,
           least(len(p.token_ids), len(q.token_ids)) AS shorter
    FROM pair
    LEFT JOIN responses p ON p.cell = cell_a AND p.replicate = replicate_a
                         AND p.request_id = pair.request_id
    LEFT JOIN responses q ON q.cell = cell_b AND q.replicate = replicate_b
                         AND q.request_id = pair.request_id
), located AS (
    SELECT *, CASE WHEN ids_a <> ids_b THEN coalesce(
        list_position(list_transform(range(1, shorter + 1), lambda k: ids_a[k] <> ids_b[k]), true),
        shorter + 1) END AS place
    FROM traced
)
SELECT task, doc_id, cell_a, cell_b,
       CASE WHEN value_a = 1 AND value_b = 0 THEN 'right->wrong'
            WHEN value_a = 0 AND value_b = 1 THEN 'wrong->right'
            WHEN value_a = value_b THEN 'same score' ELSE 'other score' END AS change,
       value_a, value_b, text_a, text_b, extracted_a, extracted_b,
       place - 1 AS divergence_index,
       CASE WHEN place IS NULL THEN choice_margin ELSE margins[place] END AS margin,
       ids_top_a[place] AS top_ids_a, logprobs_top_a[place] AS top_logprobs_a,
       ids_top_b[place] AS top_ids_b, logprobs_top_b[place] AS top_logprobs_b,
       docs.prompt, located.target, docs.choices
FROM located LEFT JOIN docs USING (model, seed, task, doc_id)
ORDER BY NOT is_target, value_a = value_b, margin DESC NULLS LAST, task, doc_id, cell_b
LIMIT $limit
"""


def changed_items(warehouse: Path, limit: int = 2000) -> list[dict[str, Any]]:
    """Return the items whose answer differs from that of the reference cell of their model.

    The pair of reference and target comes first, in it the changed scores, then wide margins.
    `divergence_index` counts generated tokens from 0, `common_prefix` characters of both texts;
    `margin` is the reference's there, in nats (of its choice for multiple choice).
    `top_ids_*` and `top_logprobs_*` [k] are the candidates at that token, None where none exist.
    """
    with duckdb.connect(str(warehouse), read_only=True) as db:
        values = {role: read_role(db, role) for role in ("reference", "target")}
        found = db.execute(CHANGED, {**values, "limit": limit})
        names = [column[0] for column in found.description or []]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    for row in rows:
        row["common_prefix"] = _common_prefix(row["text_a"] or "", row["text_b"] or "")
    return rows


def _common_prefix(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(left), len(right)))
