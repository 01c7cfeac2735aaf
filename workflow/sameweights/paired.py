"""The items of two cells side by side: one query for the comparison and for its readers.

The warehouse holds it as table macro `paired_items(cell_a, cell_b)`, so that the rows behind every
number of the report can be asked for in one short line.
"""

from __future__ import annotations

import duckdb

from sameweights.metrics import all_metrics

VIEWS = """
CREATE VIEW measured_items AS
SELECT i.*, e.logits_sha256, e.token_ids, e.margins
FROM items i
JOIN measured USING (cell, replicate)
LEFT JOIN evidence e USING (task, doc_id, cell, replicate);

CREATE MACRO first_difference(a, b) AS CASE WHEN a <> b THEN coalesce(
    list_position(
        list_transform(range(1, least(len(a), len(b)) + 1), lambda k: a[k] <> b[k]), true),
    least(len(a), len(b)) + 1) - 1 END;
"""
"""`measured`: runs with a scored item. A prefix of the other answer parts at its end."""

PAIRED = """
SELECT p.pair, i.task, i.filter, i.metric, i.doc_id,
       coalesce(max(CASE WHEN i.status <> 'ok' THEN i.status
                         WHEN j.status <> 'ok' THEN j.status END), 'ok') AS status,
       bool_and(i.value IN (0, 1) AND j.value IN (0, 1)) AS is_binary,
       {metrics},
       arg_min(i.answer_text, i.replicate) AS answer_a,
       arg_min(j.answer_text, j.replicate) AS answer_b,
       min(i.replicate) AS shown_replicate_a, min(j.replicate) AS shown_replicate_b,
       count(*) AS replicate_pairs
FROM {pairs} p
JOIN {left} i ON i.cell = p.cell_a
JOIN {right} j ON j.cell = p.cell_b AND j.task = i.task AND j.doc_id = i.doc_id
              AND j.filter = i.filter AND j.metric = i.metric
WHERE p.cell_a <> p.cell_b OR i.replicate < j.replicate
GROUP BY p.pair, i.task, i.filter, i.metric, i.doc_id
"""
"""One row an item. Every number is the mean over the pairs of measured replicates, one of each
cell; a cell beside itself is compared over its pairs of different replicates."""


def pair_query(pairs: str, left: str, right: str) -> str:
    """Spell the query over a relation (pair, cell_a, cell_b) and two like measured_items."""
    metrics = ",\n       ".join(f"avg({m.sql}) AS {m.name}" for m in all_metrics())
    return PAIRED.format(metrics=metrics, pairs=pairs, left=left, right=right)


def define_views(db: duckdb.DuckDBPyConnection) -> None:
    """Add measured_items, first_difference and paired_items to a warehouse with its tables."""
    db.execute(VIEWS)
    # A condition on a constant skips the other cells' rows; the join alone would read them all.
    body = pair_query(
        "(SELECT 0 AS pair, left_cell AS cell_a, right_cell AS cell_b)",
        *(f"(FROM measured_items WHERE cell = {side})" for side in ("left_cell", "right_cell")),
    )
    db.execute(f"CREATE MACRO paired_items(left_cell, right_cell) AS TABLE {body}")
