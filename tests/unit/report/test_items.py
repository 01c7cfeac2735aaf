"""Answers are cut at the first divergent token, flips come first, and what was cut is said."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from synthetic_results import Scenario, write_results

from sameweights.attribution.mechanism import divergence_index as first_difference
from sameweights.report import items
from sameweights.report.items import cut_answer, label_items, read_changed
from sameweights.warehouse import build_warehouse

WORDS = {
    1: "the",
    2: " cat",
    3: " car",
    4: "s",
    5: "<eos>",
    6: " cats",
    7: "\ufffd",
    8: "\ufffd",
    9: "!",
}
A, BW = "toy/dev-a/torch/bf16/s0", "toy/dev-b/torch/w8a16/s0"


def cut(own: str, other: str, ids: list[int], index: int | None) -> tuple[str, str, str]:
    found = cut_answer(own, other, ids, index, WORDS)
    return found.same, found.token, found.rest


def test_token_that_shares_its_beginning_is_marked_whole() -> None:
    assert cut("the cats", "the cars", [1, 2, 4], 1) == ("the", " cat", "s")
    assert cut("the cars", "the cats", [1, 3, 4], 1) == ("the", " car", "s")


def test_equal_text_from_other_tokens_is_marked_at_the_token() -> None:
    assert cut("the cats", "the cats", [1, 2, 4], 1) == ("the", " cat", "s")
    assert cut("the cats", "the cats", [1, 6], 1) == ("the", " cats", "")


def test_answer_that_ends_first_shows_its_end_token() -> None:
    assert cut("the", "the cat", [1, 5], 1) == ("the", "<eos>", "")
    assert cut("the", "the cat", [1], 1) == ("the", "", "")


def test_character_spread_over_two_tokens_falls_back_to_the_text() -> None:
    assert cut("é!", "é?", [7, 8, 9], 2) == ("é", "!", "")


def test_choice_differs_as_a_whole() -> None:
    assert cut("the cat", "the car", [], None) == ("", "the cat", "")


def test_long_parts_are_cut_and_say_how_much_is_missing() -> None:
    same, token, rest = items.Answer("a" * 5_000, "b", "c" * 5_000).to_json()
    assert same.startswith("… 4400 more characters alike") and len(same) < 700
    assert token == "b" and rest.endswith("… 3800 more characters")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    folder = write_results(tmp_path_factory.mktemp("results"), Scenario(n=30))
    build_warehouse(folder, folder / "w.duckdb")
    return duckdb.connect(str(folder / "w.duckdb"), read_only=True)


def test_divergence_equals_the_metric_of_the_comparison(
    warehouse: duckdb.DuckDBPyConnection,
) -> None:
    found = [i for i in read_changed(warehouse, A, BW)["items"] if i["task"] == "arith"]
    assert len(found) > 20
    for item in found:
        cells = (A, f"toy/{item['cell']}/s0")
        ids = [_tokens(warehouse, cell, item["doc_id"]) for cell in cells]
        assert item["index"] == first_difference(*ids)


def _tokens(db: duckdb.DuckDBPyConnection, cell: str, doc_id: int) -> list[int]:
    query = """SELECT token_ids FROM responses r JOIN requests q USING (request_id)
               WHERE r.cell = ? AND r.replicate = 0 AND q.task = 'arith' AND q.doc_id = ?"""
    return list(db.execute(query, [cell, doc_id]).fetchall()[0][0])


def test_flips_come_first_then_the_target_then_wide_margins(
    warehouse: duckdb.DuckDBPyConnection,
) -> None:
    found = read_changed(warehouse, A, BW)["items"]
    flips = [i["kind"] in ("lost", "won") for i in found]
    assert flips == sorted(flips, reverse=True) and len(set(flips)) == 2
    margins = [
        i["margin"] for i in found if i["cell"] == "dev-b/torch/w8a16" and i["kind"] == "lost"
    ]
    assert len(margins) > 3 and margins == sorted(margins, reverse=True)


def test_choices_stand_with_both_log_likelihoods(warehouse: duckdb.DuckDBPyConnection) -> None:
    item = next(i for i in read_changed(warehouse, A, BW)["items"] if i["task"] == "choice")
    texts, left, right = zip(*item["choices"], strict=True)
    assert texts == ("north", "south-west", "east", "west")
    assert str(left.index(max(left))) == item["extracted_a"]
    assert str(right.index(max(right))) == item["extracted_b"]


def test_what_does_not_fit_is_counted(
    warehouse: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = read_changed(warehouse, A, BW)
    assert everything["total"] == len(everything["items"])
    monkeypatch.setattr(items, "MAX_BYTES", 6_000)
    some = read_changed(warehouse, A, BW)
    assert some["total"] == everything["total"]
    assert some["items"] == everything["items"][: len(some["items"])] and some["items"]


def test_huge_answer_stays_small_on_the_page(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=3, texts={1: "x" * 1_000_000}))
    build_warehouse(tmp_path, tmp_path / "w.duckdb")
    with duckdb.connect(str(tmp_path / "w.duckdb"), read_only=True) as db:
        found = read_changed(db, A, BW)
    item = next(
        i for i in found["items"] if i["doc_id"] == 1 and i["cell"].startswith("dev-b/torch/w8")
    )
    assert "more characters" in item["b"][2] and len(str(item)) < 10_000


def test_words_and_prompts_are_those_of_the_own_model(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=8))
    build_warehouse(tmp_path, tmp_path / "w.duckdb")
    with duckdb.connect(str(tmp_path / "w.duckdb")) as db:
        before = read_changed(db, A, BW)
        db.execute("INSERT INTO vocabulary SELECT 'other', token_id, 'WRONG' FROM vocabulary")
        db.execute("INSERT INTO docs SELECT * REPLACE ('WRONG' AS prompt, 1 AS seed) FROM docs")
        assert read_changed(db, A, BW) == before
    assert before["items"]
    for key, prompt in before["prompts"].items():
        task, _, doc_id = key.partition("/")
        assert prompt == f"Question {doc_id} of {task}?"


def test_choices_come_from_the_measured_replicate(tmp_path: Path) -> None:
    write_results(tmp_path, Scenario(n=8))
    (tmp_path / f"cells/{BW}/r0/items.parquet").unlink()
    broken = tmp_path / f"cells/{BW}/r0/responses.jsonl"
    broken.write_text(broken.read_text().replace('"loglikelihood":-', '"loglikelihood":-9'))
    build_warehouse(tmp_path, tmp_path / "w.duckdb")
    with duckdb.connect(str(tmp_path / "w.duckdb"), read_only=True) as db:
        found = read_changed(db, A, BW)
    items_with_choices = [i["choices"] for i in found["items"] if "choices" in i]
    assert items_with_choices
    assert all(ll > -9 for choices in items_with_choices for _, *lls in choices for ll in lls)


def test_direction_and_level_say_what_changed(warehouse: duckdb.DuckDBPyConnection) -> None:
    found = read_changed(warehouse, A, BW)["items"]
    for item in found:
        before, after = item["value_a"], item["value_b"]
        same = "both right" if before else "both wrong"
        assert item["kind"] == (same if before == after else "won" if after > before else "lost")
        extracted = item["extracted_a"] != item["extracted_b"]
        assert (item["level"] == "extracted answer") == extracted
    assert {item["kind"] for item in found} >= {"lost", "both wrong"}


def test_classes_are_those_of_the_attribution() -> None:
    classes = {"items": [["t", 2, "none"]], "labels": ["device"]}
    assert label_items(classes) == {("t", 2): "device"}
    assert label_items(None) == {}
