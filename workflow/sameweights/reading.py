"""Reading a finished warehouse: never written to, never with the whole machine's memory."""

from __future__ import annotations

from pathlib import Path

import duckdb

MEMORY_LIMIT = "1GB"
"""Of the database alone; what does not fit goes to disk."""


def open_warehouse(path: Path) -> duckdb.DuckDBPyConnection:
    """Connect read-only; the caller closes it."""
    db = duckdb.connect(str(path), read_only=True)
    db.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
    return db
