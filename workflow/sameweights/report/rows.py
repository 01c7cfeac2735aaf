"""The way back from a number to its rows: SQL for warehouse.duckdb, made only here.

Names go in as quoted literals. Every query gives one row an item that the number counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sameweights.report.tables import ALL, Row
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
        self._seed = split_seed

    def add(self, row: Row) -> int:
        """Take a row of the comparison, or one with its own `sql`, in; returns its place."""
        floor = {key: row[key] for key in ("noise_floor", "noise_floor_hi")}
        counts = {key: row[key] for key in ("statistic", "n", "n_planned", "estimate", "lo", "hi")}
        cells = [short(row["cell_a"]), short(row["cell_b"])]
        return self._add(
            {**counts, **floor, "cells": cells, "sql": row.get("sql") or pair_rows(row)}
        )

    def add_score(self, cell: Row) -> int:
        """Take the score of a cell of the matrix in; returns its place."""
        entry = {"statistic": "score", "n": cell["n"], "n_planned": cell["planned"]}
        entry |= {"estimate": cell["score"], **dict.fromkeys(("lo", "hi"))}
        entry |= dict.fromkeys(("noise_floor", "noise_floor_hi"))
        sql = score_rows(cell["cell"])
        return self._add({**entry, "cells": [short(cell["cell"])], "sql": sql})

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
        self.entries.append(entry)
        return len(self.entries) - 1


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


def divergence_rows(cell_a: str, cell_b: str, lo: int, hi: int | None) -> str:
    """Generated answers of two cells; `value` is 1 where their first difference is in [lo, hi)."""
    below = "" if hi is None else f" AND mean_divergence_index < {hi}"
    return (
        f"SELECT *, coalesce(mean_divergence_index >= {lo}{below}, FALSE)::INT AS value\n"
        f"FROM {_pair(cell_a, cell_b)}\nJOIN primary_metrics USING (task, filter, metric)\n"
        "JOIN (SELECT DISTINCT task, doc_id FROM evidence\n"
        f"      WHERE cell = {quote(cell_a)} AND token_ids IS NOT NULL) USING (task, doc_id)\n"
        "WHERE status = 'ok'\nORDER BY value DESC, task, doc_id;"
    )


def position_rows(cell_a: str, cell_b: str, gap: Mapping[str, Any] | None = None) -> str:
    """Token positions with the same text before them; `value` is 1 where the best token differs.

    `gap`: a bin of the mechanism, whose positions alone are meant.
    """
    within = ""
    if gap is not None and gap["hi_taus"] == 0:
        within = "\n  AND gap <= 0"
    elif gap is not None:
        within = f"\n  AND gap > 0 AND gap >= {gap['lo_nats']!r}"
        within += "" if gap["hi_nats"] is None else f" AND gap < {gap['hi_nats']!r}"
    return (
        "SELECT request_id, place - 1 AS position,\n"
        "       (ids_a[place][1] <> ids_b[place][1])::INT AS value,\n"
        "       logs_a[place][1]::DOUBLE - logs_a[place][2]::DOUBLE AS gap\nFROM (\n"
        "  SELECT request_id, a.top_ids AS ids_a, b.top_ids AS ids_b, a.top_logprobs AS logs_a,\n"
        "         unnest(range(1, 1 + least(len(a.top_ids), len(b.top_ids), \n"
        "             len(a.token_ids), len(b.token_ids),\n"
        "             first_difference(a.token_ids, b.token_ids) + 1))) AS place\n"
        "  FROM responses a JOIN responses b USING (request_id)\n"
        f"  WHERE a.cell = {quote(cell_a)} AND b.cell = {quote(cell_b)}\n"
        "    AND a.replicate = 0 AND b.replicate = 0 AND a.status = 'ok' AND b.status = 'ok')\n"
        "WHERE list_has_all(ids_b[place], ids_a[place][:2])"
        f"{within}\nORDER BY value DESC, gap;"
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


def score_rows(cell: str) -> str:
    """Rows behind a cell's score over all tasks: one an item measured in all its replicates."""
    return (
        "SELECT task, doc_id, avg(value) AS value\n"
        "FROM measured_items JOIN primary_metrics USING (task, filter, metric)\n"
        f"WHERE cell = {quote(cell)}\nGROUP BY task, doc_id HAVING bool_and(status = 'ok')\n"
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
