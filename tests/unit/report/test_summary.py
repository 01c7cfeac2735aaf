"""What leaves the page: the Markdown summary with hostile text, and the charts as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_results import MODEL, STOPPED, Scenario, write_attribution, write_results
from typer.testing import CliRunner

from sameweights.cli import app
from sameweights.compare import compare_cells
from sameweights.report.wording import markdown
from sameweights.warehouse import build_warehouse


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("a | b", "|"),
        ("<img src=x>", "<"),
        ("[click](https://x.example)", "["),
        ("see https://x.example", "://"),
        ("see www.x.example", "www."),
        ("thanks @somebody", "@s"),
        ("closes #12", "#1"),
        ("`code`", "`"),
        ("**loud**", "*"),
        ("one\n\n# two\u2028three", "\n"),
        ("\\[x", "\\"),
    ],
)
def test_hostile_text_is_no_markdown(text: str, forbidden: str) -> None:
    assert forbidden not in markdown(text)


def test_summary_and_plots_of_finished_results(tmp_path: Path, root: Path) -> None:
    note = "A | board\n| of @somebody <b>"
    write_results(tmp_path, Scenario(n=12, note=note))
    build_warehouse(tmp_path, tmp_path / "warehouse.duckdb")
    compare_cells(tmp_path / "warehouse.duckdb", tmp_path / "comparison.parquet")
    write_attribution(tmp_path)
    arguments = ["report", str(tmp_path), "--assets", str(root / "report")]
    found = CliRunner().invoke(app, [*arguments, "--plots", str(tmp_path / "plots")])
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 3 and {line.count("|") for line in table} == {9}
    assert "canary: 4.2 nats" in found.stdout and "excluded: takes &lt;too&gt; long" in found.stdout
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"waterfall_score.svg", "waterfall_score.png", "churn_delta.svg"} <= names
    assert (tmp_path / "plots/churn_delta.png").read_bytes().startswith(b"\x89PNG")


def test_summary_advises_no_stopped_cell(tmp_path: Path, root: Path) -> None:
    write_results(tmp_path, Scenario(n=12))
    build_warehouse(tmp_path, tmp_path / "warehouse.duckdb")
    compare_cells(tmp_path / "warehouse.duckdb", tmp_path / "comparison.parquet")
    path = write_attribution(tmp_path)
    device, precision = STOPPED.split("/")
    stopped = f"{device}/torch/{precision}"
    split = json.loads(path.read_bytes())
    ranked = [{"cell": f"{MODEL}/{stopped}"}, {"cell": "m/other/board/w8a16"}]
    split["outcomes"]["score"]["identified"] = True
    split["outcomes"]["churn"] |= {"identified": False, "next_cells": ranked}
    path.write_text(json.dumps(split))
    found = CliRunner().invoke(app, ["report", str(tmp_path), "--assets", str(root / "report")])
    (advice,) = [line for line in found.stdout.splitlines() if line.startswith("- To tell more:")]
    assert f"Run other/board/w8a16 next. {stopped} would tell too, but was stopped" in advice
