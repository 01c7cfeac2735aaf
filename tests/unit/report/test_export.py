"""Tables leave the report whole: all digits, both formats alike, no formulas."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from synthetic_results import Scenario, write_attribution, write_results

from sameweights.compare import compare_cells
from sameweights.report import build_report, export
from sameweights.report.pairs import STATISTICS
from sameweights.warehouse import build_warehouse


def test_every_table_is_written_twice(tmp_path: Path, root: Path) -> None:
    write_results(tmp_path, Scenario(n=12, texts={1: "=1+1", 2: '\ud800, "x"\n'}))
    warehouse, comparison = tmp_path / "warehouse.duckdb", tmp_path / "c.parquet"
    build_warehouse(tmp_path, warehouse)
    compare_cells(warehouse, comparison)
    outputs = [tmp_path / name for name in ("r.html", "r.md", "v.txt", "tables")]
    build_report(warehouse, comparison, write_attribution(tmp_path), root / "report", *outputs)
    found = {path.stem: path for path in (tmp_path / "tables").glob("*.parquet")}
    assert {"comparison", "pairs", "cells", "scores", "runs", "attribution", "changed"} <= set(
        found
    )
    assert "chart-waterfall_score" in found
    for name, path in found.items():
        frame = pl.read_parquet(path)
        if frame.width:
            assert (
                pl.read_csv(path.with_suffix(".csv"), infer_schema=False).height == frame.height
            ), name
    numbers, pairs = (pl.read_parquet(found[name]) for name in ("comparison", "pairs"))
    assert numbers.equals(pl.read_parquet(comparison))
    assert pairs.height == 6 and {f"{name}_n" for name in STATISTICS} <= set(pairs.columns)
    differing = pl.DataFrame([{"fact": "=1+1", "n": -1.5}, {"fact": "@x", "n": 2.0}])
    export.write_csv(differing, tmp_path / "guarded.csv")
    assert (tmp_path / "guarded.csv").read_text() == "fact,n\n'=1+1,-1.5\n'@x,2.0\n"
