"""Every changed answer is on exactly one page, and hostile text stays text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from synthetic_results import Scenario, write_results

from sameweights.report import all_items
from sameweights.report.all_items import write_all_items
from sameweights.report.changed import Part, pack
from sameweights.report.items import read_changed
from sameweights.warehouse import build_warehouse

A, BW = "toy/dev-a/torch/bf16/s0", "toy/dev-b/torch/w8a16/s0"
ASSETS = Path(__file__).resolve().parents[3] / "report"


def on_page(path: Path) -> list[dict[str, Any]]:
    found = re.search(r'id="changed-data">(.*?)</script>', path.read_text(encoding="utf-8"))
    assert found
    items: list[dict[str, Any]] = json.loads(found[1])["items"]
    return items


def key(item: dict[str, Any]) -> tuple[str, int, str]:
    return item["task"], item["doc_id"], item["cell"]


def test_pages_hold_what_differs_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_results(tmp_path, Scenario(n=30, texts={1: "</script><script>alert(1)</script>"}))
    warehouse = tmp_path / "w.duckdb"
    build_warehouse(tmp_path, warehouse)
    monkeypatch.setattr(all_items, "MAX_ITEMS", 11)
    out = tmp_path / "report-items"
    (out).mkdir()
    (out / "00099.html").write_text("of an earlier call")
    index = write_all_items(warehouse, None, ASSETS, out)
    pages = sorted(out.glob("[0-9]*.html"))
    assert len(pages) > 3
    assert re.findall(r'href="(\d+\.html)"', index.read_text()) == [page.name for page in pages]
    items = [item for page in pages for item in on_page(page)]
    assert all(len(on_page(page)) <= 11 for page in pages)
    assert not any("<script>alert" in page.read_text(encoding="utf-8") for page in pages)
    with duckdb.connect(str(warehouse), read_only=True) as db:
        known = read_changed(db, A, BW)["items"]
    assert {key(i): {**i, "class": None} for i in known} == {
        key(i): {
            **i,
            "top_a": [tuple(t) for t in i["top_a"]],
            "top_b": [tuple(t) for t in i["top_b"]],
        }
        for i in items
    }
    assert len(items) == len(known)
    table = pl.read_parquet(out / "changed.parquet")
    assert table.height == len(items)
    assert set(table["text_b"]) >= {"</script><script>alert(1)</script>"}


def test_parts_keep_an_item_whole() -> None:
    counts = [("a", 1, 3), ("a", 2, 3), ("a", 5, 9), ("b", 1, 1), ("b", 2, 1)]
    assert pack(counts, 6) == [Part("a", 1, 2, 6), Part("a", 5, 5, 9), Part("b", 1, 2, 2)]
    assert pack([], 6) == []
