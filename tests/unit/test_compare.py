"""The comparison table: one row per pair, scope and statistic, with its noise floor."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from sameweights.align import ComparabilityError
from sameweights.compare import compare_cells
from sameweights.warehouse import build_warehouse

sys.path.insert(0, str(Path(__file__).parent / "report"))
from synthetic_results import Scenario, write_results

A, AW = "toy/dev-a/torch/bf16/s0", "toy/dev-a/torch/w8a16/s0"
B, BW = "toy/dev-b/torch/bf16/s0", "toy/dev-b/torch/w8a16/s0"


def compare(folder: Path) -> pl.DataFrame:
    build_warehouse(folder, folder / "warehouse.duckdb")
    compare_cells(folder / "warehouse.duckdb", folder / "comparison.parquet")
    return pl.read_parquet(folder / "comparison.parquet")


def row(
    table: pl.DataFrame, a: str, b: str, statistic: str, task: str = "all"
) -> dict[str, object]:
    found = table.filter(cell_a=a, cell_b=b, task=task, statistic=statistic).sort("metric")
    return found.row(0, named=True)


def by_hand(folder: Path, a: str, b: str) -> list[tuple[dict[str, object], dict[str, object]]]:
    """Items of the first replicates, paired by a plain dictionary."""
    sides = []
    for cell in (a, b):
        frame = pl.read_parquet(folder / f"cells/{cell}/r0/items.parquet")
        frame = frame.filter(pl.col("metric") != "acc_norm")
        sides.append({(r["task"], r["doc_id"]): r for r in frame.iter_rows(named=True)})
    return [(sides[0][key], sides[1][key]) for key in sides[0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("results"), Scenario())


@pytest.fixture(scope="module")
def table(folder: Path) -> pl.DataFrame:
    return compare(folder)


def test_numbers_equal_those_counted_by_hand(folder: Path, table: pl.DataFrame) -> None:
    pairs = by_hand(folder, A, BW)
    lost = sum(x["value"] == 1 and y["value"] == 0 for x, y in pairs)
    won = sum(x["value"] == 0 and y["value"] == 1 for x, y in pairs)
    changed = sum(x["answer_tokens"] != y["answer_tokens"] for x, y in pairs)
    assert lost and changed > lost + won
    assert row(table, A, BW, "right_to_wrong")["estimate"] == lost / 40
    assert row(table, A, BW, "churn_tokens")["estimate"] == changed / 40
    assert row(table, A, BW, "delta")["estimate"] == pytest.approx((won - lost) / 40)


def test_reference_comes_first_and_every_pair_once(table: pl.DataFrame) -> None:
    pairs = table.filter(pl.col("cell_a") != pl.col("cell_b")).select("cell_a", "cell_b").unique()
    assert pairs.filter(cell_a=A).height == 3 and pairs.filter(cell_b=A).height == 0
    assert pairs.height == 6


def test_failed_item_leaves_the_pair_and_is_counted(table: pl.DataFrame) -> None:
    found = row(table, A, B, "delta", "arith")
    assert (found["n"], found["n_planned"]) == (19, 20)
    found = row(table, A, B, "delta")
    assert (found["n"], found["n_planned"]) == (39, 40)


def test_identical_replicates_have_floor_zero_with_an_upper_limit(table: pl.DataFrame) -> None:
    floor = row(table, A, A, "churn_tokens")
    assert (floor["estimate"], floor["noise_floor"]) == (0.0, 0.0)
    assert floor["noise_floor_hi"] == pytest.approx(1 - 0.05 ** (1 / 40))
    assert row(table, A, A, "bitwise_equal_logits")["estimate"] == 1.0


def test_floor_of_a_pair_is_the_mean_of_both_cells(table: pl.DataFrame) -> None:
    assert row(table, AW, AW, "churn_tokens")["estimate"] == pytest.approx(1 / 40)
    pair = row(table, A, AW, "churn_tokens")
    assert pair["noise_floor"] == pytest.approx(0.5 / 40)
    assert pair["noise_floor_hi"] == row(table, AW, AW, "churn_tokens")["hi"]
    assert pair["noise_floor_hi"] > row(table, A, A, "churn_tokens")["noise_floor_hi"]


def test_no_replicates_is_an_unknown_floor(tmp_path: Path) -> None:
    found = row(compare(write_results(tmp_path, Scenario(replicates=1))), A, BW, "churn_tokens")
    assert found["noise_floor"] is None and found["noise_floor_hi"] is None


def test_backend_without_hashes_is_not_called_bitwise_equal(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=4))
    for path in tmp_path.glob("cells/toy/dev-b/**/responses.jsonl"):
        text = path.read_text()
        path.write_text(text.replace('"logits_sha256":"', '"error":"'))
    found = compare(tmp_path)
    for a, b in ((A, BW), (BW, BW)):
        assert row(found, a, b, "bitwise_equal_logits")["n"] == 0
    assert row(found, A, A, "bitwise_equal_logits")["n"] == 8


def test_first_measured_replicate_stands_for_a_cell(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=6))
    (tmp_path / f"cells/{BW}/r0/items.parquet").unlink()
    found = compare(tmp_path)
    assert row(found, A, BW, "delta")["n"] == 12
    assert found.filter(cell_a=BW, cell_b=BW).height == 0


def test_cells_that_ran_other_items_are_refused(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=6))
    path = tmp_path / f"cells/{BW}/r0/items.parquet"
    pl.read_parquet(path).filter(pl.col("doc_id") != 2).write_parquet(path)
    with pytest.raises(ComparabilityError, match=r"w8a16/s0/r0 lacks 3 of .* doc_id 2"):
        compare(tmp_path)


def test_detail_says_why_items_were_left_out(table: pl.DataFrame) -> None:
    assert json.loads(str(row(table, A, B, "delta")["detail"])) == {"left_out": {"timeout": 1}}
    assert row(table, A, A, "delta")["detail"] is None


def test_detail_has_the_mean_of_replicates_that_differ(folder: Path, table: pl.DataFrame) -> None:
    values = [
        item["value"]
        for replicate in (0, 1)
        for item in pl.read_parquet(folder / f"cells/{AW}/r{replicate}/items.parquet")
        .filter(pl.col("metric") != "acc_norm")
        .iter_rows(named=True)
    ]
    detail = json.loads(str(row(table, A, AW, "score_b")["detail"]))
    assert detail["mean_over_replicates"] == pytest.approx(sum(values) / 80)
    assert detail["mean_over_replicates"] != row(table, A, AW, "score_b")["estimate"]


def test_third_replicate_passes_the_gate_too(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=6, replicates=3))
    path = tmp_path / f"cells/{BW}/r2/items.parquet"
    pl.read_parquet(path).with_columns(prompt_hash=pl.lit("x")).write_parquet(path)
    with pytest.raises(ComparabilityError, match=r"s0/r2 differ in prompt_hash on 18 of 18"):
        compare(tmp_path)
