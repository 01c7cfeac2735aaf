"""The way back from a number to its rows: SQL for warehouse.duckdb, made only here.

Names go in as quoted literals. Every query gives one row an item that the number counts.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        """Take a row of the comparison in; returns its place."""
        floor = {key: row[key] for key in ("noise_floor", "noise_floor_hi")}
        counts = {key: row[key] for key in ("statistic", "n", "n_planned", "estimate", "lo", "hi")}
        cells = [short(row["cell_a"]), short(row["cell_b"])]
        return self._add({**counts, **floor, "cells": cells, "sql": pair_rows(row)})

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
