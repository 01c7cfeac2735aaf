"""The warehouse holds what the matrix plans: rows of every run, and holes with their reasons."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from runner.contract import ContractError
from sameweights.errors import UserError
from sameweights.warehouse import build_warehouse

sys.path.insert(0, str(Path(__file__).parent / "report"))
from synthetic_results import CHANGE_RATE, Scenario, write_results


def build(folder: Path) -> duckdb.DuckDBPyConnection:
    build_warehouse(folder, folder / "warehouse.duckdb")
    return duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True)


def count(db: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(db.sql(f"SELECT count(*) FROM {query}").fetchall()[0][0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_results(tmp_path, Scenario(n=6))


def test_every_run_is_loaded_and_every_hole_has_its_reason(folder: Path) -> None:
    db = build(folder)
    runs = 2 * len(CHANGE_RATE)
    assert count(db, "responses") == runs * 6 * 5
    assert count(db, "items") == runs * 6 * 3
    holes = db.sql("SELECT device, reason FROM cells WHERE state = 'excluded'").fetchall()
    assert holes == [("dev-c", "takes <too> long")]
    stopped = db.sql("SELECT DISTINCT outcome, reason FROM runs WHERE cell LIKE '%dev-c%'")
    assert stopped.fetchall() == [("stopped", "canary: 4.2 nats from the reference, allowed 0.1")]


def test_failed_item_keeps_its_status_and_no_value(folder: Path) -> None:
    db = build(folder)
    found = db.sql("SELECT DISTINCT status, value FROM items WHERE status <> 'ok'").fetchall()
    assert found == [("timeout", None)]


def test_run_without_record_is_missing_and_unplanned_run_leaves_no_ghost(folder: Path) -> None:
    cells = folder / "cells/toy/dev-b/torch/bf16/s0"
    (cells / "r1/run.json").unlink()
    cells.joinpath("r0").rename(cells / "r7")
    db = build(folder)
    found = db.sql(
        "SELECT replicate, outcome FROM runs WHERE cell LIKE '%dev-b/torch/bf16%' ORDER BY 1"
    ).fetchall()
    assert found == [(0, "missing"), (1, "missing")]


def test_rebuild_replaces_the_whole_file(folder: Path) -> None:
    build(folder).close()
    before = (folder / "warehouse.duckdb").stat().st_ino
    db = build(folder)
    assert (folder / "warehouse.duckdb").stat().st_ino != before
    assert count(db, "runs") == 2 * (len(CHANGE_RATE) + 1)
    assert not list(folder.glob("*.part"))


def test_other_columns_are_refused_by_name(folder: Path) -> None:
    path = next(folder.glob("cells/**/r0/items.parquet"))
    pl.read_parquet(path).with_columns(pl.col("value").cast(pl.String)).write_parquet(path)
    with pytest.raises(UserError, match=r"items\.parquet: its columns are"):
        build(folder)


def test_cut_journal_names_file_and_line(folder: Path) -> None:
    path = folder / "cells/toy/dev-a/torch/bf16/s0/r0/responses.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ContractError, match=r"responses\.jsonl: line 30: cut off"):
        build(folder)


def test_lone_surrogate_is_stored_as_its_escape(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=3, texts={1: "x\ud800y\u2028z"}))
    db = build(tmp_path)
    found = db.sql("SELECT DISTINCT text FROM responses WHERE text LIKE 'x%'").fetchall()
    assert found == [("x\\ud800y\u2028z",)]


def test_vocabulary_holds_the_candidates_too(folder: Path) -> None:
    db = build(folder)
    words = {row[0] for row in db.sql("SELECT text FROM vocabulary").fetchall()}
    assert {"The", " sum", " 1"} <= words


def test_folder_of_an_excluded_cell_leaves_no_ghost(folder: Path) -> None:
    path = folder / "matrix.json"
    matrix = json.loads(path.read_bytes())
    cell = next(c for c in matrix["cells"] if c["cell"] == "toy/dev-b/torch/bf16/s0")
    cell |= {"state": "excluded", "reason": "too slow"}
    path.write_text(json.dumps(matrix))
    db = build(folder)
    for table in ("runs", "items", "responses"):
        assert count(db, f"{table} WHERE cell = '{cell['cell']}'") == 0
    assert count(db, f"cells WHERE cell = '{cell['cell']}' AND reason = 'too slow'") == 1


def test_copied_items_are_refused(folder: Path) -> None:
    cell = folder / "cells/toy/dev-a/torch/bf16/s0"
    shutil.copy(cell / "r0/items.parquet", cell / "r1/items.parquet")
    with pytest.raises(UserError, match=r"18 rows of .*bf16/s0/r0; only .*/s0/r1 is allowed"):
        build(folder)


@pytest.mark.parametrize("key", ["cell", "identity"])
def test_record_of_another_run_is_refused(folder: Path, key: str) -> None:
    path = folder / "cells/toy/dev-a/torch/bf16/s0/r0/run.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), key: "other"}))
    with pytest.raises(UserError, match=rf"run\.json: key '{key}' is 'other', expected"):
        build(folder)
