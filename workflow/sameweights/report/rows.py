"""The way back from a number to its rows: SQL for warehouse.duckdb, made only here.

Names go in as quoted literals. Every query gives one row an item, position or answer that
the number counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sameweights.report.tables import ALL, Row, Scope
from sameweights.report.wording import short

COLUMN_OF_OUTCOME = {
    "score": "delta",
    "churn": "churn_extracted",
    **{name: name for name in ("churn_tokens", "churn_text", "right_to_wrong", "wrong_to_right")},
}
"""What an item of a corner contributes to an outcome of the split; others are not by item."""

COLUMN_OF_TEST = {"mcnemar_mid_p": "delta"}


class Numbers:
    """The numbers of one page with their queries; the page refers to them by place."""

    def __init__(self, split_seed: int | None = None) -> None:
        """`split_seed`: the one seed whose items the split covers; None where it has several."""
        self.entries: list[Row] = []
        self._places: dict[str, int] = {}
        self._seed = split_seed

    def add(self, row: Row) -> int:
        """Take a row of the comparison, or one with its own `sql`, in; returns its place."""
        floor = {key: row[key] for key in ("noise_floor", "noise_floor_hi")}
        counts = {key: row[key] for key in ("statistic", "n", "n_planned", "estimate", "lo", "hi")}
        cells = [short(row["cell_a"]), short(row["cell_b"])]
        sql = row.get("sql") or pair_rows(row)
        unit = {"unit": row["unit"]} if "unit" in row else {}
        return self._add({**counts, **unit, **floor, "cells": cells, "sql": sql})

    def add_score(self, score: Row, scope: Scope = ALL) -> int:
        """Take a score of a cell of the matrix in, over all tasks or one `scope`; its place."""
        name = " ".join(("score", *(scope if scope != ALL else ())))
        entry = {"statistic": name, "n": score["n"], "n_planned": score["planned"]}
        entry |= {"estimate": score["score"], **dict.fromkeys(("lo", "hi"))}
        entry |= dict.fromkeys(("noise_floor", "noise_floor_hi"))
        sql = score_rows(score["cell"], scope)
        return self._add({**entry, "cells": [short(score["cell"])], "sql": sql})

    def add_term(self, split: Row, outcome: str, term: Row) -> int | None:
        """Take a term of the split in; returns its place, or None where no rows stand for it."""
        sql = None if self._seed is None else corner_rows(split, outcome, self._seed)
        if sql is None or term["estimate"] is None:
            return None
        lo, hi = term["interval"] or (None, None)
        entry = {"statistic": f"{outcome}: {term['name']}", "n": term["n"], "lo": lo, "hi": hi}
        entry |= {"n_planned": split["n_items"] + split["n_excluded"]}
        noise = split["outcomes"][outcome]["noise"]
        entry |= {"noise_floor": noise["value"], "noise_floor_hi": noise["upper"]}
        entry |= {"estimate": term["estimate"]}
        cells = [short(split["reference"]), short(split["target"])]
        return self._add({**entry, "cells": cells, "sql": sql})

    def _add(self, entry: Row) -> int:
        """A number that stands on the page more than once is held once."""
        key = repr(entry)
        if key not in self._places:
            self._places[key] = len(self.entries)
            self.entries.append(entry)
        return self._places[key]


def pair_rows(row: Mapping[str, Any]) -> str:
    """Rows behind a number of two cells: `n` of them, their `value` averages to the estimate.

    `row`: a row of the comparison. A test's rows have the differences that it judges.
    """
    column = COLUMN_OF_TEST.get(row["statistic"], row["statistic"])
    return (
        f"SELECT *, {column} AS value\n"
        f"FROM {_pair(row['cell_a'], row['cell_b'])}\n"
        f"{_scope(row)}status = 'ok' AND {column} IS NOT NULL\n"
        "ORDER BY value DESC, task, doc_id;"
    )


def flipped_rows(cell_a: str, cell_b: str) -> str:
    """The items that are right in one cell and wrong in the other, by the tasks' main metrics."""
    return (
        f"SELECT task, doc_id, right_to_wrong, wrong_to_right\nFROM {_pair(cell_a, cell_b)}\n"
        "JOIN primary_metrics USING (task, filter, metric)\n"
        "WHERE status = 'ok' AND right_to_wrong + wrong_to_right > 0\nORDER BY task, doc_id;"
    )


def class_rows(row: Mapping[str, Any], keys: Iterable[tuple[str, int]]) -> str:
    """Rows behind the part of a number of two cells that the items `keys` contribute."""
    column = row["statistic"]
    members = ", ".join(f"({quote(task)}, {int(doc_id)})" for task, doc_id in keys)
    return (
        f"SELECT *, CASE WHEN (task, doc_id) IN ({members}) THEN {column} ELSE 0 END AS value\n"
        f"FROM {_pair(row['cell_a'], row['cell_b'])}\n"
        f"{_scope(row)}status = 'ok' AND {column} IS NOT NULL\n"
        "ORDER BY value DESC, task, doc_id;"
    )


def spread_rows(cell_a: str, cell_b: str, column: str, *, generated: bool) -> str:
    """All planned items of a pair, or its generated answers: (value, whether it was compared)."""
    compared, only = "status = 'ok'", ""
    if generated:
        compared += f" AND {_have_tokens(cell_a, cell_b)}"
        only = (
            "WHERE (task, doc_id) IN (SELECT (task, doc_id) FROM requests WHERE kind = 'generate')"
        )
    return (
        f"SELECT {column}, {compared}\nFROM {_pair(cell_a, cell_b)}\n"
        f"JOIN primary_metrics USING (task, filter, metric) {only};"
    )


def binned_rows(cell_a: str, cell_b: str, hit: str, *, generated: bool) -> str:
    """Items of two cells, or their generated answers; `value` is 1 where `hit` is true."""
    only = f"\n  AND {_have_tokens(cell_a, cell_b)}" if generated else ""
    return (
        f"SELECT *, coalesce({hit}, FALSE)::INT AS value\n"
        f"FROM {_pair(cell_a, cell_b)}\nJOIN primary_metrics USING (task, filter, metric)\n"
        f"WHERE status = 'ok'{only}\nORDER BY value DESC, task, doc_id;"
    )


def _have_tokens(cell_a: str, cell_b: str) -> str:
    sides = (
        f"SELECT (task, doc_id) FROM evidence WHERE cell = {quote(cell)} AND token_ids IS NOT NULL"
        for cell in dict.fromkeys((cell_a, cell_b))
    )
    return f"(task, doc_id) IN ({' INTERSECT '.join(sides)})"


SHARED = """
WITH sides AS (
  SELECT request_id, a.top_ids AS ids_a, b.top_ids AS ids_b,
         a.top_logprobs::DOUBLE[][] AS logs_a, b.top_logprobs::DOUBLE[][] AS logs_b,
         least(first_difference(a.token_ids, b.token_ids) + 1, len(ids_a), len(ids_b)) AS shared
  FROM responses a JOIN responses b USING (request_id)
  WHERE a.cell = {a} AND a.replicate = {run_a} AND a.status = 'ok'
    AND b.cell = {b} AND b.replicate = {run_b} AND b.status = 'ok'
), places AS (
  SELECT request_id, unnest(range(shared)) AS position,
         unnest(ids_a[:shared]) AS ids_a, unnest(ids_b[:shared]) AS ids_b,
         unnest(logs_a[:shared]) AS logs_a, unnest(logs_b[:shared]) AS logs_b
  FROM sides
), """
"""Token positions with the same text before them in two runs, each with its best candidates."""

POSITIONS = (
    SHARED
    + """positions AS (
  SELECT request_id, position, logs_a[1] - logs_a[2] AS margin,
         logs_b[list_position(ids_b, ids_a[1])] - logs_b[list_position(ids_b, ids_a[2])] - margin
         AS change, (ids_a[1] <> ids_b[1])::INT AS flipped
  FROM places
)"""
)
"""Of the first runs: `margin` of the reference's two best tokens (nats), its `change` in the other
cell (null where that did not store both tokens), and whether the best token `flipped`."""

AGREEMENT = (
    SHARED
    + """known AS (
  SELECT request_id, position, (ids_a[1] <> ids_b[1])::INT AS differs,
         list_filter(ids_a, lambda t: list_contains(ids_b, t)) AS stored,
         list_transform(stored, lambda t: logs_a[list_position(ids_a, t)]) AS own,
         list_transform(stored, lambda t: logs_b[list_position(ids_b, t)]) AS other,
         greatest(1 - coalesce(list_sum(list_transform(own, lambda x: exp(x))), 0), 1e-6) AS rest,
         greatest(1 - coalesce(list_sum(list_transform(other, lambda x: exp(x))), 0), 1e-6)
         AS rest_b
  FROM places
), agreement AS (
  SELECT task, doc_id, position, differs,
         greatest(rest * ln(rest / rest_b) + coalesce(list_sum(list_transform(
           list_zip(own, other), lambda pair: exp(pair[1]) * (pair[1] - pair[2]))), 0), 0) AS kld
  FROM known JOIN (SELECT DISTINCT request_id, task, doc_id FROM requests) USING (request_id)
)"""
)
"""At every shared position: whether the best token `differs`, and the Kullback-Leibler divergence
`kld` of the reference's next-token distribution from the other cell's, in nats.

Candidates that both stored count one by one, all other tokens as one, so `kld` is a lower bound
(data processing inequality). Below 1e-6 the rest is rounding of fp32 log-probabilities."""


def position_rows(
    cell_a: str, cell_b: str, *, value: str = "", keep: str = "", runs: tuple[int, int] = (0, 0)
) -> str:
    """Token positions with the same text before them; `value` is an expression over their columns.

    `keep`: which of them. `runs`: the replicates of either side.
    """
    sides = {"a": quote(cell_a), "b": quote(cell_b), "run_a": runs[0], "run_b": runs[1]}
    shown, only = f", {value} AS value" if value else "", f" AND {keep}" if keep else ""
    return (
        f"{POSITIONS.format(**sides).strip()}\nSELECT *{shown} FROM positions\n"
        f"WHERE change IS NOT NULL{only}\nORDER BY margin, request_id, position;"
    )


def agreement_rows(cell_a: str, cell_b: str, column: str, keep: str) -> str:
    """Items with shared positions in `keep`; `value`: mean of a column of AGREEMENT there."""
    return (
        f"{_agreement(cell_a, cell_b, (0, 0))}\n"
        f"SELECT task, doc_id, count(*) AS positions, avg({column}) AS value\n"
        f"FROM agreement WHERE {keep}\nGROUP BY task, doc_id ORDER BY value DESC, task, doc_id;"
    )


def agreement_places(cell_a: str, cell_b: str, runs: tuple[int, int]) -> str:
    """All rows of AGREEMENT of two runs."""
    return f"{_agreement(cell_a, cell_b, runs)}\nSELECT * FROM agreement;"


def _agreement(cell_a: str, cell_b: str, runs: tuple[int, int]) -> str:
    sides = {"a": quote(cell_a), "b": quote(cell_b), "run_a": runs[0], "run_b": runs[1]}
    return AGREEMENT.format(**sides).strip()


def answer_rows(cell_a: str, cell_b: str, *, value: str = "") -> str:
    """Generated answers of the first runs: length, margins, position of the first difference."""
    return (
        "SELECT request_id, len(a.token_ids) AS tokens,\n"
        "       list_transform(a.top_logprobs, lambda t: t[1] - t[2]) AS margins,\n"
        "       first_difference(a.token_ids, b.token_ids) AS position"
        f"{f', {value} AS value' if value else ''}\n"
        "FROM responses a JOIN responses b USING (request_id)\n"
        f"WHERE a.cell = {quote(cell_a)} AND b.cell = {quote(cell_b)}\n"
        "  AND a.replicate = 0 AND b.replicate = 0 AND a.status = 'ok' AND b.status = 'ok'\n"
        "  AND a.token_ids IS NOT NULL AND b.token_ids IS NOT NULL\n"
        "  AND a.top_ids IS NOT NULL AND b.top_ids IS NOT NULL\nORDER BY position, request_id;"
    )


def corner_rows(split: Mapping[str, Any], outcome: str, seed: int) -> str | None:
    """Rows behind the terms of a split: an item's change from the reference to every corner.

    Each term is a sum of these columns' means with whole or fractional signs; the last column is
    the total. None for an outcome that is no sum over items.
    """
    column = COLUMN_OF_OUTCOME.get(outcome)
    corners = [c["cell"] for c in split.get("corners", []) if c["state"] == "run"]
    others = [cell for cell in corners if cell != split["reference"]]
    if column is None or not others:
        return None
    others.sort(key=lambda cell: cell == split["target"])
    full = [f"{cell}/s{seed}" for cell in (split["reference"], *others)]
    keys = "USING (task, filter, metric, doc_id)"
    joined = "\n".join(
        f"{'FROM' if not n else 'JOIN'} {_pair(full[0], cell)} c{n}{f' {keys}' if n else ''}"
        for n, cell in enumerate(full[1:])
    )
    names = ", ".join(f"c{n}.{column} AS {_name(cell)}" for n, cell in enumerate(others))
    fine = " AND ".join(f"c{n}.status = 'ok'" for n in range(len(others)))
    return (
        f"SELECT task, doc_id, {names}\n{joined}\n"
        f"JOIN primary_metrics USING (task, filter, metric)\nWHERE {fine};"
    )


def labelled_rows(label: str, file: str) -> str:
    """Items that the attribution's JSON `file` classes; `value` is 1 in the class `label`."""
    return (
        f"SELECT item->>0 AS task, (item->>1)::BIGINT AS doc_id, class,\n"
        f"       (class = {quote(label)})::INT AS value\n"
        "FROM (SELECT unnest((classes->'items')::JSON[]) AS item,\n"
        "             unnest((classes->'labels')::VARCHAR[]) AS class\n"
        f"      FROM read_json({quote(file)}, columns = {{classes: 'JSON'}},\n"
        "                     maximum_object_size = 1000000000))\n"
        "ORDER BY value DESC, task, doc_id;"
    )


def score_rows(cell: str, scope: Scope = ALL) -> str:
    """Rows behind a cell's score, over all tasks or one: an item measured in all its replicates."""
    named = dict(zip(("task", "filter", "metric"), scope, strict=True))
    return (
        f"SELECT task, doc_id, avg(value) AS value\nFROM measured_items\n{_scope(named)}"
        f"cell = {quote(cell)}\nGROUP BY task, doc_id HAVING bool_and(status = 'ok')\n"
        "ORDER BY task, doc_id;"
    )


def quote(text: str) -> str:
    """Spell a text as SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + short(text).replace('"', '""') + '"'


def _pair(cell_a: str, cell_b: str) -> str:
    return f"paired_items({quote(cell_a)}, {quote(cell_b)})"


def _scope(row: Mapping[str, Any]) -> str:
    if (row["task"], row["filter"], row["metric"]) == ALL:
        return "JOIN primary_metrics USING (task, filter, metric)\nWHERE "
    names = ("task", "filter", "metric")
    return "WHERE " + " AND ".join(f"{name} = {quote(row[name])}" for name in names) + "\n  AND "
