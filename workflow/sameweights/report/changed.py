"""The answers that differ from the reference's: found once, read a page at a time.

Texts, tokens and responses are read only for the answers of one page: a large warehouse has
millions of changed answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from sameweights.report.tables import Row, read_rows

FIND = """
CREATE OR REPLACE TEMP TABLE found AS
WITH shown AS (
    SELECT cell, min(replicate) AS replicate FROM measured GROUP BY cell
), own AS NOT MATERIALIZED (
    SELECT i.* FROM items i
    JOIN primary_metrics USING (task, filter, metric) JOIN shown USING (cell, replicate)
    WHERE i.status = 'ok' AND i.model = $model AND i.seed = $seed
)
SELECT task, doc_id, filter, metric, j.cell,
       i.replicate AS replicate_a, j.replicate AS replicate_b,
       i.value AS value_a, j.value AS value_b, i.margin
FROM own i JOIN own j USING (task, doc_id, filter, metric)
WHERE i.cell = $reference AND j.cell <> i.cell
  AND (i.answer_tokens IS DISTINCT FROM j.answer_tokens
       OR i.answer_extracted IS DISTINCT FROM j.answer_extracted)
"""
PLACE = """
CREATE OR REPLACE TEMP TABLE changed AS
SELECT found.* EXCLUDE margin, first_difference(i.token_ids, j.token_ids) AS divergence,
       CASE WHEN divergence IS NULL THEN found.margin ELSE i.margins[divergence + 1] END AS margin
FROM found
LEFT JOIN evidence i ON i.cell = $reference AND i.replicate = replicate_a
                    AND i.task = found.task AND i.doc_id = found.doc_id
LEFT JOIN evidence j ON j.cell = found.cell AND j.replicate = replicate_b
                    AND j.task = found.task AND j.doc_id = found.doc_id
"""
"""`found` with the first divergent token and the margin there: two steps, so that the database
knows the size of the first before it plans the second."""

ORDER = "value_a = value_b, c.cell <> $target, margin DESC NULLS LAST, c.task, c.doc_id, c.cell"

# Each table is cut to the items in question by itself, so that only their blocks are read; a copy
# of a whole table for its two uses would not fit into memory.
READ = f"""
WITH c AS MATERIALIZED (
    SELECT * FROM changed c WHERE {{within}} ORDER BY {ORDER} LIMIT $limit
), near AS NOT MATERIALIZED (
    SELECT * FROM items WHERE {{within}}
), known AS NOT MATERIALIZED (
    SELECT * FROM evidence WHERE {{within}}
)
SELECT c.* EXCLUDE (filter, metric, replicate_a, replicate_b), i.target,
       i.answer_text AS text_a, i.answer_extracted AS extracted_a, d.token_ids AS ids_a,
       j.answer_text AS text_b, j.answer_extracted AS extracted_b, e.token_ids AS ids_b,
       p.top_ids AS top_a, p.top_logprobs AS logprobs_a,
       q.top_ids AS top_b, q.top_logprobs AS logprobs_b
FROM c
JOIN near i ON i.cell = $reference AND i.replicate = replicate_a AND i.task = c.task
           AND i.doc_id = c.doc_id AND i.filter = c.filter AND i.metric = c.metric
JOIN near j ON j.cell = c.cell AND j.replicate = replicate_b AND j.task = c.task
           AND j.doc_id = c.doc_id AND j.filter = c.filter AND j.metric = c.metric
LEFT JOIN known d ON d.cell = $reference AND d.replicate = replicate_a
                 AND d.task = c.task AND d.doc_id = c.doc_id
LEFT JOIN known e ON e.cell = c.cell AND e.replicate = replicate_b
                 AND e.task = c.task AND e.doc_id = c.doc_id
LEFT JOIN responses p ON p.cell = $reference AND p.replicate = replicate_a
                     AND p.request_id = i.request_ids[1]
LEFT JOIN responses q ON q.cell = c.cell AND q.replicate = replicate_b
                     AND q.request_id = i.request_ids[1]
ORDER BY {ORDER}
"""  # noqa: S608

COUNTS = "SELECT task, doc_id, count(*) FROM changed GROUP BY ALL ORDER BY ALL"

ALL_ROWS = """
SELECT c.*, i.answer_text AS text_a, j.answer_text AS text_b,
       i.answer_extracted AS extracted_a, j.answer_extracted AS extracted_b
FROM changed c
JOIN items i ON i.cell = $reference AND i.replicate = replicate_a AND i.task = c.task
            AND i.doc_id = c.doc_id AND i.filter = c.filter AND i.metric = c.metric
JOIN items j ON j.cell = c.cell AND j.replicate = replicate_b AND j.task = c.task
            AND j.doc_id = c.doc_id AND j.filter = c.filter AND j.metric = c.metric
"""


@dataclass(frozen=True)
class Part:
    """Consecutive items of one task, doc_id `first` to `last`, and their changed answers."""

    task: str
    first: int
    last: int
    answers: int


@dataclass(frozen=True)
class Changed:
    """The changed answers of one model and seed; see `find_changed`."""

    db: duckdb.DuckDBPyConnection
    reference: str
    target: str
    total: int

    def read_first(self, limit: int) -> list[Row]:
        """Correctness flips first, then the target's, then wide margins."""
        return self._read("true", {"limit": limit})

    def read_part(self, part: Part) -> list[Row]:
        """All changed answers of a part, in the same order."""
        within = "task = $task AND doc_id BETWEEN $first AND $last"
        bounds = {"task": part.task, "first": part.first, "last": part.last}
        return self._read(within, {**bounds, "limit": part.answers})

    def parts(self, size: int) -> list[Part]:
        """All of them in parts of at most `size` answers; one item is never cut in two."""
        return pack(self.db.execute(COUNTS).fetchall(), size)

    def write_parquet(self, path: str) -> None:
        """Write all of them with both answers, one row each."""
        self.db.sql(ALL_ROWS, params={"reference": self.reference}).write_parquet(path)

    def _read(self, within: str, values: Row) -> list[Row]:
        ends = {"reference": self.reference, "target": self.target}
        return list(read_rows(self.db, READ.format(within=within), {**ends, **values}))


def find_changed(db: duckdb.DuckDBPyConnection, reference: str, target: str) -> Changed:
    """Find the measured answers that differ from the reference cell's, of its model and seed.

    Of each cell the first measured replicate is compared, under the primary filter and metric.
    """
    model, seed = reference.split("/")[0], int(reference.rpartition("/s")[2])
    db.execute(FIND, {"model": model, "seed": seed, "reference": reference})
    db.execute(PLACE, {"reference": reference})
    total = db.execute("SELECT count(*) FROM changed").fetchall()[0][0]
    return Changed(db, reference, target, total)


def pack(counts: Iterable[tuple[str, int, int]], size: int) -> list[Part]:
    """Pack (task, doc_id, answers), sorted, into parts; an item above `size` has its own."""
    parts: list[Part] = []
    for task, doc_id, answers in counts:
        last = parts[-1] if parts else None
        if last and last.task == task and last.answers + answers <= size:
            parts[-1] = Part(task, last.first, doc_id, last.answers + answers)
        else:
            parts.append(Part(task, doc_id, doc_id, answers))
    return parts
