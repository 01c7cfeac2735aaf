"""Every table of the report as CSV and Parquet: tables/<name>.csv, tables/<name>.parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sameweights.report.pairs import STATISTICS
from sameweights.report.tables import Row

TERM_KEYS = ("name", "estimate", "bounds", "interval", "n", "verdict", "few_items", "p", "p_holm")


def write_tables(comparison: Path, context: Row, folder: Path) -> None:
    """Write each table of a report's context twice; `folder` is made, other files in it stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in _tables(pl.read_parquet(comparison), context):
        frame.write_parquet(folder / f"{name}.parquet")
        write_csv(frame, folder / f"{name}.csv")


def write_csv(frame: pl.DataFrame, path: Path) -> None:
    """Write all digits; a text that a spreadsheet would run as a formula gets an apostrophe."""
    text = pl.col(pl.String)
    guarded = pl.when(text.str.contains(r"^[=@\t+\-]")).then("'" + text).otherwise(text)
    frame.with_columns(guarded.name.keep()).write_csv(path)


def _tables(numbers: pl.DataFrame, context: Row) -> Iterator[tuple[str, pl.DataFrame]]:
    yield "comparison", numbers
    yield "pairs", _widen(numbers)
    cells = context["cells"]
    names = ("cell", "state", "reason", "score", "n", "planned")
    yield "cells", _frame([{name: cell[name] for name in names} for cell in cells])
    scores = [{"state": c["state"], **score} for c in cells for score in c["scores"]]
    yield "scores", _frame(scores)
    yield "runs", _frame(context["runs"])
    facts = ("fact", "reference", "target")
    differences = [dict(zip(facts, row, strict=True)) for row in context["differences"]]
    yield "differences", _frame(differences)
    split = context["split"] or {}
    yield "attribution", _frame(_terms(split))
    yield "classes", _frame((split.get("classes") or {}).get("counts", []))
    yield "mechanism", _frame(split.get("mechanism") or [])
    yield "changed", _frame(context["changed"]["items"])
    for name, rows in context["charts"]["datasets"].items():
        yield f"chart-{name}", _frame(rows)


def _widen(numbers: pl.DataFrame) -> pl.DataFrame:
    """One row a pair over all tasks, columns <statistic>, _lo, _hi, _n."""
    keys = ["cell_a", "cell_b"]
    own = numbers.filter(pl.col("task") == "all", pl.col("cell_a") != pl.col("cell_b"))
    wide = own.select(keys).unique(maintain_order=True)
    for name in STATISTICS:
        columns = {name: "estimate", f"{name}_lo": "lo", f"{name}_hi": "hi", f"{name}_n": "n"}
        one = own.filter(statistic=name).select(*keys, **{k: pl.col(v) for k, v in columns.items()})
        wide = wide.join(one, on=keys, how="left", maintain_order="left")
    return wide


def _terms(split: Row) -> Iterator[Row]:
    for outcome, record in split.get("outcomes", {}).items():
        for kind in ("total", "headline", "fair_share", "blocks"):
            terms = record[kind] if isinstance(record[kind], list) else [record[kind]]
            for term in terms:
                row = {key: term.get(key) for key in TERM_KEYS}
                yield {"outcome": outcome, "kind": kind, **row}


def _frame(rows: Any) -> pl.DataFrame:
    """Rows as a table; what is nested becomes JSON, an empty table keeps no columns."""
    return pl.DataFrame(
        [{k: _flat(v) for k, v in row.items()} for row in rows], infer_schema_length=None
    )


def _flat(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=True, default=str)
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
