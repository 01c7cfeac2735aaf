"""What the runs of a warehouse are, before their rows are read: a large matrix stays on disk.

A split needs the cells between its two ends, and at most a chain of others; of the rest only a
few facts count, which the database can add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from sameweights.attribution.bridge import find_bridge
from sameweights.attribution.lattice import Levels
from sameweights.attribution.table import CHURN_LEVELS, Run

_SURVEY = """
SELECT model, device, backend, precision, seed, replicate,
       (count(*), sum(mark::HUGEINT), bit_xor(mark)) AS fingerprint,
       min(value) AS low, max(value) AS high, {known}
FROM (
    SELECT * REPLACE (CASE WHEN status = 'ok' AND isfinite(value) THEN value END AS value),
           hash(task, doc_id, doc_hash, prompt_hash, request_ids) AS mark
    FROM items JOIN (SELECT unnest(?) AS task, unnest(?) AS filter, unnest(?) AS metric) AS wanted
    USING (task, filter, metric)
    WHERE model IN (SELECT unnest(?))
)
GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True)
class RunFacts:
    """One run without its rows.

    `fingerprint` is equal for runs on the same items, prompts and requests. `low`, `high`: the
    least and largest score, None without any. `levels`: those at which it has answers.
    """

    run: Run
    fingerprint: tuple[int, int, int]
    low: float | None
    high: float | None
    levels: frozenset[str]


def survey(
    db: duckdb.DuckDBPyConnection,
    view: Sequence[tuple[str, str, str]],
    models: Sequence[str],
    seed: int | None,
) -> list[RunFacts]:
    """Facts of every run of the models, of one seed or of all, ordered as their rows are read."""
    known = ", ".join(f"count(answer_{level}) > 0" for level in CHURN_LEVELS)
    columns = [list(column) for column in zip(*view, strict=True)]
    rows = db.execute(_SURVEY.format(known=known), [*columns, list(models)]).fetchall()
    return [_facts(row) for row in rows if seed is None or row[4] == seed]


def _facts(row: tuple[Any, ...]) -> RunFacts:
    *levels, seed, replicate, fingerprint, low, high = row[:9]
    known = zip(CHURN_LEVELS, row[9:], strict=True)
    return RunFacts(
        Run(tuple(map(str, levels)), int(replicate), int(seed)),
        tuple(fingerprint),
        low,
        high,
        frozenset(level for level, has in known if has),
    )


def comparable(found: Iterable[RunFacts], reference: Levels) -> list[RunFacts]:
    """Runs on the same items as the reference's first run of their seed."""
    runs = list(found)
    first: dict[int, RunFacts] = {}
    for facts in runs:
        if facts.run.levels == reference:
            first.setdefault(facts.run.seed, facts)
    return [
        facts
        for facts in runs
        if facts.run.seed in first and facts.fingerprint == first[facts.run.seed].fingerprint
    ]


def between(ends: tuple[Levels, Levels], cell: Levels) -> bool:
    """Whether every level of a cell is one of the two ends'."""
    return all(level in pair for level, pair in zip(cell, zip(*ends, strict=True), strict=True))


def needed_cells(found: Sequence[RunFacts], ends: tuple[Levels, Levels]) -> set[Levels]:
    """The cells between two ends, and the chain of others that may have to separate factors.

    The chain stays the shortest one in the smaller table: each of its cells keeps its place among
    those that are as far from the reference.
    """
    cells = {facts.run.levels for facts in found}
    scored = {f.run.levels for f in comparable(found, ends[0]) if f.low is not None}
    chain = find_bridge(list(scored), *ends) or []
    return {cell for cell in cells if between(ends, cell)} | set(chain)
