"""Reading: the warehouse and the comparison as plain rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

Row = dict[str, Any]
Scope = tuple[str, str, str]
"""(task, filter, metric); over all tasks it is ("all", "", "")."""

ALL: Scope = ("all", "", "")


class Comparison:
    """The rows of comparison.parquet by pair, scope and statistic."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows: dict[tuple[str, str], dict[Scope, dict[str, Row]]] = {}
        for row in rows:
            scopes = self._rows.setdefault((row["cell_a"], row["cell_b"]), {})
            scope = (row["task"], row["filter"], row["metric"])
            scopes.setdefault(scope, {})[row["statistic"]] = row

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(cell_a, cell_b) of two different cells."""
        return [pair for pair in self._rows if pair[0] != pair[1]]

    def find(self, cell_a: str, cell_b: str, statistic: str, scope: Scope = ALL) -> Row | None:
        """One number with its n and interval; None where it was not computed."""
        return self._rows.get((cell_a, cell_b), {}).get(scope, {}).get(statistic)

    def either(self, one: str, other: str, statistic: str) -> Row | None:
        """A symmetric statistic of two cells, whichever stands first."""
        return self.find(one, other, statistic) or self.find(other, one, statistic)

    def scopes(self, cell_a: str, cell_b: str) -> list[Scope]:
        """Tasks of a pair, without the pooled one."""
        return [scope for scope in self._rows.get((cell_a, cell_b), {}) if scope != ALL]


def read_comparison(path: Path) -> Comparison:
    """Read comparison.parquet."""
    with duckdb.connect() as db:
        return Comparison(
            list(read_rows(db, "SELECT * FROM read_parquet($path)", {"path": str(path)}))
        )


def read_meta(db: duckdb.DuckDBPyConnection) -> Row:
    """Return reference, target and devices of the matrix."""
    rows = db.sql("SELECT key, value FROM meta").fetchall()
    return {key: json.loads(value) for key, value in rows}


def read_primary(db: duckdb.DuckDBPyConnection) -> list[Scope]:
    """Return the scope of every task's primary filter and metric, by task."""
    return db.sql("SELECT task, filter, metric FROM primary_metrics ORDER BY task").fetchall()


def read_rows(
    db: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, Any] | None = None
) -> Iterator[Row]:
    """Yield the rows of a query as dictionaries, a few at a time."""
    found = db.execute(query, values)
    names = [column[0] for column in found.description or []]
    while batch := found.fetchmany(256):
        for row in batch:
            yield dict(zip(names, row, strict=True))
