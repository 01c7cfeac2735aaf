"""The warehouse as a source: columns, seeds, statuses, the comparability gate, the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from sameweights.attribution.api import attribute
from sameweights.attribution.cli import app
from sameweights.attribution.table import TableError
from sameweights.attribution.warehouse_source import read_comparisons
from sameweights.errors import UserError
from sameweights.score import ITEM_SCHEMA

R, T = "m/mac/torch/bf16", "m/pc/torch/int8"
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def rows(seeds: tuple[int, ...] = (0,), fewshot: bool = False) -> list[dict[str, Any]]:
    """Two devices x two precisions x two replicates x 30 items of two tasks."""
    made = []
    for device, precision, seed, replicate in product(
        ("mac", "pc"), ("bf16", "int8"), seeds, (0, 1)
    ):
        for task, doc_id in product(("arith", "choice"), range(15)):
            right = doc_id % 3 != 0 and not (precision == "int8" and doc_id == 4)
            made.append(
                {
                    "cell": f"m/{device}/torch/{precision}/s{seed}",
                    "model": "m",
                    "device": device,
                    "backend": "torch",
                    "precision": precision,
                    "seed": seed,
                    "replicate": replicate,
                    "task": task,
                    "doc_id": doc_id,
                    "filter": "none",
                    "metric": "exact_match" if task == "arith" else "acc",
                    "value": float(right),
                    "status": "ok",
                    "answer_tokens": f"t{right}",
                    "answer_text": "7" if right else "about 7.",
                    "answer_extracted": "7" if right else "[invalid]",
                    "is_tie": task == "choice" and doc_id == 2,
                    "target": "7" if task == "arith" else "0",
                    "margin": None if task == "arith" else 0.5,
                    "doc_hash": f"d{doc_id}",
                    "prompt_hash": f"p{doc_id}" + (f"s{seed}" if fewshot else ""),
                    "request_ids": [f"r{doc_id}"],
                }
            )
    return made


def write(path: Path, records: list[dict[str, Any]], change: Change = lambda row: row) -> Path:
    kept = [row for row in map(change, [dict(r) for r in records]) if row is not None]
    frame = pl.DataFrame(kept, schema=ITEM_SCHEMA)
    with duckdb.connect(str(path)) as db:
        db.register("frame", frame)
        db.execute("CREATE TABLE items AS SELECT * FROM frame")
    return path


def test_items_become_an_aligned_table(tmp_path: Path) -> None:
    (found,) = read_comparisons(write(tmp_path / "w.duckdb", rows()), R, f"{T}/s0")
    assert (found.reference, found.target) == (R, T)
    table = found.table
    assert (len(table.runs), len(table.keys), table.seeds) == (8, 30, "replicate")
    assert table.metric == "exact_match+acc"
    result = attribute(table, found.reference, found.target)
    score = result.outcomes["score"]
    assert score.total.estimate == pytest.approx(-2 / 30)
    assert {t.name: round(t.estimate or 0, 12) for t in score.headline} == {
        "device": 0.0,
        "precision": round(-2 / 30, 12),
        "interaction": 0.0,
    }
    assert result.outcomes["churn_tokens"].noise.value == 0.0
    assert result.n_strata == 2
    assert result.flips is not None
    assert (result.flips.right_to_wrong, result.flips.extraction_only) == (2, 1)
    assert table.flags["tie"].sum() == 8


def test_column_of_clusters_is_used(tmp_path: Path) -> None:
    path = write(tmp_path / "w.duckdb", rows())
    with duckdb.connect(str(path)) as db:
        db.execute("ALTER TABLE items ADD COLUMN cluster VARCHAR")
        db.execute("UPDATE items SET cluster = 'p' || doc_id // 3 WHERE task = 'choice'")
    (found,) = read_comparisons(path, R, T)
    assert attribute(found.table, R, T).n_clusters == 15 + 5


def test_only_ok_is_scored(tmp_path: Path) -> None:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["device"] == "pc" and row["doc_id"] == 5 and row["replicate"] == 1:
            return {**row, "status": "timeout"}
        return row

    (found,) = read_comparisons(write(tmp_path / "w.duckdb", rows(), fail), R, T)
    result = attribute(found.table, R, T)
    assert (result.n_items, result.n_excluded) == (28, 2)
    assert result.errors[T] == 2


def test_stopped_cell_is_a_cell_that_was_not_run(tmp_path: Path) -> None:
    def stop(row: dict[str, Any]) -> dict[str, Any]:
        if (row["device"], row["precision"]) == ("mac", "int8"):
            return {**row, "status": "missing", "value": None}
        return row

    (found,) = read_comparisons(write(tmp_path / "w.duckdb", rows(), stop), R, T)
    result = attribute(found.table, R, T)
    assert not result.outcomes["score"].identified
    assert result.outcomes["score"].next_cells[0].cell == "m/mac/torch/int8"
    with pytest.raises(UserError, match="was not run"):
        attribute(found.table, R, "m/mac/torch/int8")


@pytest.mark.parametrize("key", ["doc_hash", "prompt_hash", "request_ids"])
def test_other_prompts_are_refused(tmp_path: Path, key: str) -> None:
    def differ(row: dict[str, Any]) -> dict[str, Any]:
        if row["device"] == "pc" and row["doc_id"] == 3:
            return {**row, key: ["x"] if key == "request_ids" else "x"}
        return row

    with pytest.raises(TableError, match=f"{key} differs on 2 of 30"):
        read_comparisons(write(tmp_path / "w.duckdb", rows(), differ), R, T)


def test_short_and_repeated_sets_are_refused(tmp_path: Path) -> None:
    def drop(row: dict[str, Any]) -> dict[str, Any] | None:
        return None if row["device"] == "pc" and row["doc_id"] == 3 else row

    with pytest.raises(TableError, match="2 items missing or repeated"):
        read_comparisons(write(tmp_path / "short.duckdb", rows(), drop), R, T)
    double = [*rows(), rows()[-1]]
    with pytest.raises(TableError, match="1 items missing or repeated"):
        read_comparisons(write(tmp_path / "double.duckdb", double), R, T)


def test_fewshot_seeds_are_crossed_with_items(tmp_path: Path) -> None:
    path = write(tmp_path / "w.duckdb", rows(seeds=(0, 1, 2), fewshot=True))
    (found,) = read_comparisons(path, R, T)
    assert found.table.seeds == "fewshot"
    result = attribute(found.table, R, T)
    assert result.outcomes["score"].total.estimate == pytest.approx(-2 / 30)
    assert result.outcomes["churn_excess"].noise.value == 0.0
    (single,) = read_comparisons(path, f"{R}/s1", f"{T}/s1")
    assert {run.seed for run in single.table.runs} == {1}


def test_names_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "w.duckdb", rows())
    assert read_comparisons(path, "mac/torch/bf16", "pc/torch/int8")[0].reference == R
    for wrong in ("m/mac/torch/fp8", "int8", "torch/int8"):
        with pytest.raises(TableError, match="cell "):
            read_comparisons(path, R, wrong)
    with pytest.raises(TableError, match="metric 'f1'"):
        read_comparisons(path, R, T, metric="f1")
    with pytest.raises(TableError, match="no such warehouse"):
        read_comparisons(tmp_path / "nothing", R, T)
    with duckdb.connect(str(tmp_path / "empty.duckdb")) as db:
        db.execute("CREATE TABLE other (x INT)")
    with pytest.raises(TableError, match="no table 'items'"):
        read_comparisons(tmp_path / "empty.duckdb", R, T)


def test_command_line_prints_json_or_text(tmp_path: Path) -> None:
    path = write(tmp_path / "w.duckdb", rows())
    common = ["--reference", R, "--target", T, "--warehouse", str(path)]
    options = [*common, "--config", str(tmp_path / "none")]
    result = CliRunner().invoke(app, [*options, "--json"])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)["attributions"]
    assert found["outcomes"]["score"]["total"]["estimate"] == pytest.approx(-2 / 30)
    assert np.isfinite(found["outcomes"]["score"]["total"]["interval"]).all()
    text = CliRunner().invoke(app, [*options, "--outcome", "score"])
    assert "fair shares" in text.output
    assert "precision" in text.output
    wrong = CliRunner().invoke(app, [*options, "--cap", "device=much"])
    assert isinstance(wrong.exception, UserError)
