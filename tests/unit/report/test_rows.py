"""Every number of a report leads to its rows: its SQL, run on the warehouse, gives them back."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from synthetic_results import Scenario, write_attribution, write_results

from sameweights.compare import compare_cells
from sameweights.report import build_report
from sameweights.report.rows import pair_rows, quote, score_rows
from sameweights.warehouse import build_warehouse

KINDS = [
    "total",
    "tau",
    "token flips at a gap",
    "positions with a gap",
    "token flips",
    "best next token differs",
    "KLD of the next token",
    "too wide",
    "answers changed at a margin",
    "answers changed",
    "first divergent token",
    "items of class",
    "churn_tokens",
    "bitwise_equal_logits",
    "score choice none acc_norm",
    "score",
]
"""Words of the statistics that a page must have, the longer ones first."""

TABLES = [
    *("points", "equality", "margins", "divergence"),
    *("agreement", "gaps", "mechanism", "classes"),
]


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


def test_every_number_of_the_page_returns_its_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = (folder / "report.html").read_text()
    (data,) = re.findall(r'id="number-data">(.*?)</script>', html, re.S)
    numbers: list[dict[str, Any]] = json.loads(data)
    places = [int(place) for place in re.findall(r'data-number="(\d+)"', html)]
    assert set(places) == set(range(len(numbers))) and len(numbers) > 100
    monkeypatch.chdir(folder)  # Classes are read from the attribution beside the warehouse.
    checked: Counter[str] = Counter()
    with duckdb.connect("warehouse.duckdb", read_only=True) as db:
        for number in numbers:
            rows = db.sql(number["sql"]).pl()
            assert rows.height == number["n"], number["sql"]
            name = number["statistic"]
            if name.startswith("tau"):
                found = (rows["value"] ** 2).mean() ** 0.5
            elif "predicted" in name:
                # A prediction weighs the margins of its rows with tau.
                assert "value" not in rows.columns
                continue
            elif name.endswith(": total"):
                found = rows[rows.columns[-1]].mean()
            elif "value" in rows.columns and name != "mcnemar_mid_p":
                found = rows["value"].mean()
            else:
                continue
            assert found == pytest.approx(number["estimate"]), number["sql"]
            checked[next((word for word in KINDS if word in name), "other")] += 1
    assert checked["total"] == 6 and all(checked[word] for word in KINDS)


@pytest.mark.parametrize(
    "table",
    ["points", "equality", "margins", "divergence", "agreement", "gaps", "mechanism", "classes"],
)
def test_every_row_of_a_table_leads_to_its_rows(folder: Path, table: str) -> None:
    html = (folder / "report.html").read_text()
    body = html.split(f'data-csv="{table}"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = body.split("</tr>")[:-1]
    assert rows and all('class="number"' in row for row in rows)


def test_every_score_by_task_and_metric_leads_to_its_rows(folder: Path) -> None:
    html = (folder / "report.html").read_text()
    body = html.split('data-csv="scores"')[1].split("</tbody>")[0]
    rows = [row for row in body.split("</tr>") if '<td class="num">' in row]
    # Four measured cells, one task with one metric and one with two.
    assert len(rows) == 12 and all('class="number"' in row for row in rows)


def test_scores_of_a_cell_return_their_rows(folder: Path) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        rows = db.sql(score_rows("toy/dev-b/torch/bf16/s0")).pl()
        of_task = db.sql(score_rows("toy/dev-b/torch/bf16/s0", ("choice", "none", "acc"))).pl()
    assert rows.height == 39
    assert of_task.height == 20 and set(of_task["task"]) == {"choice"}


def test_names_cannot_leave_their_quotes() -> None:
    with duckdb.connect() as db:
        for text in ("it's", "'; DROP TABLE items; --", '"', "\\'", "a\nb", "ü'ü"):
            assert db.sql(f"SELECT {quote(text)}").fetchall() == [(text,)]
    row = {"cell_a": "a'b", "cell_b": "c", "task": "t'", "filter": "f", "metric": "m"}
    sql = pair_rows({**row, "statistic": "delta"})
    assert "paired_items('a''b', 'c')" in sql and "task = 't'''" in sql
