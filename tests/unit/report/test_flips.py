"""Flips by task and class, and where answers part, against a count by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
import vl_convert
from synthetic_results import Scenario, write_attribution, write_results

from sameweights.compare import compare_cells
from sameweights.report import divergence, flips, gaps, margins
from sameweights.report.items import label_items
from sameweights.report.tables import Comparison, read_comparison, read_primary
from sameweights.warehouse import build_warehouse

REFERENCE, TARGET = "toy/dev-a/torch/bf16/s0", "toy/dev-b/torch/w8a16/s0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_results(tmp_path_factory.mktemp("results"), Scenario(replicates=1))
    build_warehouse(folder, folder / "warehouse.duckdb")
    compare_cells(folder / "warehouse.duckdb", folder / "comparison.parquet")
    write_attribution(folder)
    return folder


@pytest.fixture
def table(folder: Path) -> Comparison:
    return read_comparison(folder / "comparison.parquet")


def answers(folder: Path, cell: str) -> dict[tuple[str, int], dict[str, Any]]:
    query = """SELECT task, doc_id, value, token_ids
               FROM items JOIN primary_metrics USING (task, filter, metric)
               JOIN evidence USING (task, doc_id, cell, replicate)
               WHERE cell = ? AND status = 'ok'"""
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        rows = db.execute(query, [cell]).fetchall()
    return {(task, doc): {"value": value, "ids": ids} for task, doc, value, ids in rows}


def lost(folder: Path) -> list[tuple[str, int]]:
    before, after = answers(folder, REFERENCE), answers(folder, TARGET)
    return [key for key in before if before[key]["value"] == 1 and after[key]["value"] == 0]


def test_classes_share_all_flips_among_them(folder: Path, table: Comparison) -> None:
    split = json.loads((folder / "attribution.json").read_bytes())
    labels = label_items(split["classes"])
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        entries = flips.flips_by_class(db, table, labels, REFERENCE, TARGET)
    found = {e["group"]: round(e["lost"]["estimate"] * e["lost"]["n"]) for e in entries}
    expected = Counter(labels[key] for key in lost(folder))
    assert expected and {k: v for k, v in found.items() if v} == dict(expected)


def test_tasks_are_those_of_the_comparison(folder: Path, table: Comparison) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        primary = read_primary(db)
    entries = {e["group"]: e for e in flips.flips_by_task(table, primary, REFERENCE, TARGET)}
    assert list(entries) == ["all tasks", "arith", "choice"]
    assert entries["all tasks"]["lost"]["estimate"] * entries["all tasks"]["lost"][
        "n"
    ] == pytest.approx(len(lost(folder)))
    rows = list(flips.chart_rows(list(entries.values())))
    assert all(row["estimate"] <= 0 for row in rows if row["way"] == "lost")
    assert all(row["estimate"] >= 0 for row in rows if row["way"] == "won")


def test_answers_are_counted_where_they_part(folder: Path) -> None:
    before, after = answers(folder, REFERENCE), answers(folder, TARGET)
    places = []
    written = [key for key in before if before[key]["ids"] is not None]
    for key in written:
        ours, theirs = before[key]["ids"], after[key]["ids"]
        if ours != theirs:
            pairs = enumerate(zip(ours, theirs, strict=False))
            places.append(next((k for k, (a, b) in pairs if a != b), min(len(ours), len(theirs))))
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as db:
        rows = divergence.read_divergence(db, REFERENCE, TARGET)
    assert places and {row["n"] for row in rows} == {len(written)}
    assert sum(row["estimate"] * row["n"] for row in rows) == pytest.approx(len(places))
    first = next(row for row in rows if row["bin"] == "0")
    assert first["estimate"] * first["n"] == pytest.approx(places.count(0))
    assert first["noise_floor"] is None, "no cell was run twice"


def test_flips_of_a_task_are_those_of_its_primary_metric() -> None:
    rows = [
        {
            "cell_a": "a",
            "cell_b": "b",
            "task": t,
            "filter": f,
            "metric": m,
            "statistic": s,
            "estimate": 0.0,
        }
        for t, f, m in (("one", "none", "acc"), ("two", "none", "acc"), ("two", "none", "norm"))
        for s in flips.WAYS.values()
    ]
    primary = [("one", "none", "acc"), ("two", "none", "norm")]
    entries = flips.flips_by_task(Comparison(rows), primary, "a", "b")
    shown = [(entry["group"], entry[way]["metric"]) for entry in entries for way in flips.WAYS]
    assert shown == [("one", "acc")] * 2 + [("two", "norm")] * 2


@pytest.mark.parametrize(
    "spec",
    [
        flips.draw_flips("flips_task", "task", 3),
        divergence.draw_divergence(4),
        margins.draw_margins(),
        gaps.draw_positions(8),
        gaps.draw_gaps(8),
    ],
)
def test_charts_compile_and_describe_themselves(spec: dict[str, Any]) -> None:
    assert spec["description"]
    assert vl_convert.vegalite_to_vega(spec)["marks"]


def test_the_dashed_line_stands_before_a_bin_that_exists() -> None:
    found = [{"lo_taus": 0.0, "hi_taus": 0.0}, {"lo_taus": 1.0, "hi_taus": 2.0}]
    assert [gaps.name_gap(gap) for gap in found] == ["exact tie", gaps.ONE_TAU]
    assert gaps.name_gap({"lo_taus": 5.0, "hi_taus": None}) == "≥ 5 tau"
