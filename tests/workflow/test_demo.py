"""The demo's path end to end with the real model, as `make smoke` runs it."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.model]


def snakemake(root: Path, results: Path, *more: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = [
        *("snakemake", "--profile", "local", "--configfile", "config/smoke.yaml", "--nolock"),
        *("--config", f"results={results}", "limit=4", *more),
    ]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def results(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smoke") / "results"
    done = snakemake(root, folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def test_every_run_is_complete_and_replicates_are_bitwise_identical(results: Path) -> None:
    records = sorted(results.glob("cells/*/*/*/*/*/r*/run.json"))
    assert len(records) == 8
    assert {json.loads(p.read_bytes())["outcome"] for p in records} == {"complete"}
    floors = pl.read_parquet(results / "comparison.parquet").filter(
        pl.col("cell_a") == pl.col("cell_b"), pl.col("statistic") == "bitwise_equal_logits"
    )
    assert floors.height and set(floors["estimate"]) == {1.0}


def test_devices_give_other_bits_for_the_same_requests(results: Path) -> None:
    pairs = pl.read_parquet(results / "comparison.parquet").filter(
        pl.col("cell_a").str.contains("avx512/torch/bf16"),
        pl.col("cell_b").str.contains("sse/torch/bf16"),
        pl.col("task") == "all",
        pl.col("statistic") == "bitwise_equal_logits",
    )
    assert pairs["n"].to_list() == [12]
    assert pairs["estimate"][0] < 0.5


def test_warehouse_report_and_verdict_agree(results: Path) -> None:
    with duckdb.connect(str(results / "warehouse.duckdb"), read_only=True) as db:
        ((items,),) = db.sql("SELECT count(DISTINCT (task, doc_id)) FROM items").fetchall()
    assert items == 12
    verdict = (results / "verdict.txt").read_text().strip()
    page = html.unescape((results / "report.html").read_text())
    assert "on 12 items" in verdict
    headline = verdict.split(". ")[0]
    assert headline and headline in page
    assert "default-src 'none'" in page
    assert "not a machine of its own" in page
    split = json.loads((results / "attribution.json").read_bytes())
    total = split["outcomes"]["score"]
    assert sum(t["estimate"] for t in total["headline"]) == pytest.approx(
        total["total"]["estimate"], abs=1e-12
    )


def test_second_run_has_nothing_to_do(root: Path, results: Path) -> None:
    done = snakemake(root, results)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stderr + done.stdout


def test_plan_lists_holes_and_refuses_typos_without_touching_anything(
    root: Path, tmp_path: Path
) -> None:
    untouched = tmp_path / "none"
    done = snakemake(root, untouched, "devices=[cpu-avx512,cpu-orin]", "-n")
    assert done.returncode != 0
    assert "'cpu-orin' is not in config/devices" in done.stdout + done.stderr
    done = snakemake(root, untouched, "replicate=3", "-n")
    assert "did you mean 'replicates'" in done.stdout + done.stderr
    done = snakemake(root, untouched, "-n")
    assert done.returncode == 0
    assert not untouched.exists()
