"""Every number of a report leads to its rows: its SQL, run on the warehouse, gives them back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from synthetic_results import Scenario, write_attribution, write_results

from sameweights.compare import compare_cells
from sameweights.report import build_report
from sameweights.report.rows import pair_rows, quote, score_rows
from sameweights.warehouse import build_warehouse


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    folder = write_results(tmp_path_factory.mktemp("results"), Scenario(replicates=3))
    build_warehouse(folder, folder / "warehouse.duckdb")
    compare_cells(folder / "warehouse.duckdb", folder / "comparison.parquet")
    outputs = (folder / name for name in ("report.html", "report.md", "verdict.txt"))
    split = write_attribution(folder)
    warehouse, comparison = folder / "warehouse.duckdb", folder / "comparison.parquet"
    build_report(warehouse, comparison, split, root / "report", *outputs)
    return folder


def test_every_number_of_the_page_returns_its_rows(folder: Path) -> None:
    html = (folder / "report.html").read_text()
    (data,) = re.findall(r'id="number-data">(.*?)</script>', html, re.S)
    numbers: list[dict[str, Any]] = json.loads(data)
    places = [int(place) for place in re.findall(r'data-number="(\d+)"', html)]
    assert sorted(places) == list(range(len(numbers))) and len(numbers) > 100
    split_terms = 0
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        for number in numbers:
            rows = db.sql(number["sql"]).pl()
            assert rows.height == number["n"], number["sql"]
            if "value" in rows.columns and number["statistic"] != "mcnemar_mid_p":
                assert rows["value"].mean() == pytest.approx(number["estimate"])
            elif number["statistic"].endswith(": total"):
                assert rows[rows.columns[-1]].mean() == pytest.approx(number["estimate"])
                split_terms += 1
    assert split_terms == 6


def test_scores_of_a_cell_return_their_rows(folder: Path) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        rows = db.sql(score_rows("toy/dev-b/torch/bf16/s0")).pl()
    assert rows.height == 39


def test_names_cannot_leave_their_quotes() -> None:
    with duckdb.connect() as db:
        for text in ("it's", "'; DROP TABLE items; --", '"', "\\'", "a\nb", "ü'ü"):
            assert db.sql(f"SELECT {quote(text)}").fetchall() == [(text,)]
    row = {"cell_a": "a'b", "cell_b": "c", "task": "t'", "filter": "f", "metric": "m"}
    sql = pair_rows({**row, "statistic": "delta"})
    assert "paired_items('a''b', 'c')" in sql and "task = 't'''" in sql
