"""The comparison table: one row per pair, scope and statistic, with its noise floor."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from sameweights.align import ComparabilityError
from sameweights.attribution.api import attribute
from sameweights.attribution.warehouse_source import read_comparisons
from sameweights.compare import compare_cells
from sameweights.errors import UserError
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


def test_a_cell_is_the_mean_of_its_replicates(folder: Path, table: pl.DataFrame) -> None:
    """Replicate 1 of AW differs on one item: every number of the pair takes half of it."""
    frames = [
        [
            pl.read_parquet(folder / f"cells/{cell}/r{replicate}/items.parquet").filter(
                pl.col("metric") != "acc_norm"
            )
            for replicate in (0, 1)
        ]
        for cell in (A, AW)
    ]
    score = pl.concat(frames[1])["value"].mean()
    assert score != frames[1][0]["value"].mean()
    assert row(table, A, AW, "score_b")["estimate"] == pytest.approx(score)
    changed = [
        sum(x != y for x, y in zip(one["answer_tokens"], other["answer_tokens"], strict=True))
        for one in frames[0]
        for other in frames[1]
    ]
    assert len(set(changed)) == 2
    assert row(table, A, AW, "churn_tokens")["estimate"] == pytest.approx(sum(changed) / 4 / 40)
    lost, won = (row(table, A, AW, name) for name in ("right_to_wrong", "wrong_to_right"))
    assert row(table, A, AW, "delta")["estimate"] == pytest.approx(
        won["estimate"] - lost["estimate"]  # type: ignore[operator]
    )


def test_verdict_and_split_use_one_rule(folder: Path, table: pl.DataFrame) -> None:
    """The comparison's totals are those of the attribution, where replicates differ too."""
    (pair,) = read_comparisons(
        folder / "warehouse.duckdb", "dev-a/torch/bf16", "dev-a/torch/w8a16", primary=True
    )
    found = attribute(pair.table, pair.reference, pair.target).to_dict()
    for outcome, statistic in (("score", "delta"), ("churn_tokens", "churn_tokens")):
        total = found["outcomes"][outcome]["total"]["estimate"]
        assert total == pytest.approx(row(table, A, AW, statistic)["estimate"])


def test_primary_filter_is_the_first_of_the_yaml_or_the_configured_one(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=6))
    matrix = json.loads((tmp_path / "matrix.json").read_bytes())

    def primary() -> tuple[str, str]:
        compare(tmp_path)
        with duckdb.connect(str(tmp_path / "warehouse.duckdb"), read_only=True) as db:
            query = "SELECT filter, metric FROM primary_metrics WHERE task = 'choice'"
            (found,) = db.execute(query).fetchall()
        return found  # type: ignore[no-any-return]

    assert primary() == ("none", "acc")
    (tmp_path / "scores/toy").mkdir(parents=True)
    views = {"choice": [["none", "acc_norm"], ["none", "acc"]]}
    (tmp_path / "scores/toy/s0.json").write_text(json.dumps({"views": views}))
    assert primary() == ("none", "acc_norm")
    matrix["primary"] = {"choice": {"filter": None, "metric": "acc"}}
    (tmp_path / "matrix.json").write_text(json.dumps(matrix))
    assert primary() == ("none", "acc")
    matrix["primary"] = {"choice": {"filter": "strict", "metric": None}}
    (tmp_path / "matrix.json").write_text(json.dumps(matrix))
    with pytest.raises(UserError, match=r"primary: choice: .*strict.* is none of .*acc_norm"):
        primary()


def test_third_replicate_passes_the_gate_too(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=6, replicates=3))
    path = tmp_path / f"cells/{BW}/r2/items.parquet"
    pl.read_parquet(path).with_columns(prompt_hash=pl.lit("x")).write_parquet(path)
    with pytest.raises(ComparabilityError, match=r"s0/r2 differ in prompt_hash on 18 of 18"):
        compare(tmp_path)


def test_a_score_changes_by_at_most_all_of_it(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=2, failed=()))
    deltas = compare(tmp_path).filter(statistic="delta").drop_nulls("lo")
    assert len(deltas) > 0
    assert deltas["lo"].min() >= -1 and deltas["hi"].max() <= 1
    assert (deltas["lo"] == -1).any() or (deltas["hi"] == 1).any()
