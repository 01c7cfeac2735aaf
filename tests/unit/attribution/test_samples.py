"""lm-eval sample files: every input that breaks tools of this kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_tables import SHARED

from sameweights.attribution.api import attribute
from sameweights.attribution.extraction import holds_answer
from sameweights.attribution.samples import (
    SampleError,
    choice_scores,
    iterate_records,
    ordered_arguments,
    read_tables,
)
from sameweights.attribution.table import TableError

CASES = SHARED / "cases"
A, B = "mac/torch/fp16", "jetson/torch/fp16"

needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside the checkout")


def read_one(name: str) -> Any:
    return read_tables([(A, CASES / name)])[0]


def write_changed(source: Path, target: Path, change: Any) -> None:
    records = [dict(record) for _, record in iterate_records(source)]
    change(records)
    target.write_text("".join(json.dumps(record) + "\n" for record in records))


@needs_cases
def test_two_filters_are_one_item_set_each() -> None:
    pair = [(A, CASES / "two_filters_a.jsonl"), (B, CASES / "two_filters_b.jsonl")]
    tables = read_tables(pair)
    assert [t.filter for t in tables] == ["strict-match", "flexible-extract"]
    for table in tables:
        found = attribute(table, A, B)
        assert found.n_items == 20
        assert found.flips is not None
        assert found.flips.right_to_wrong + found.flips.wrong_to_right == 3
    assert [t.filter for t in read_tables(pair, filter_name="flexible-extract")] == [
        "flexible-extract"
    ]
    with pytest.raises(TableError, match=r"filter 'none'.*flexible-extract"):
        read_tables(pair, filter_name="none")


@needs_cases
def test_nan_choice_is_an_error_and_is_counted() -> None:
    path = CASES / "nan_choice.jsonl"
    table = read_tables([(A, path), (B, path)])[0]
    assert np.isnan(table.values[:, 5]).all()
    found = attribute(table, A, B)
    assert (found.n_items, found.n_excluded) == (5, 1)
    assert found.errors == {A: 1, B: 1}
    assert any("1 of 6 items are errors" in note and "doc 5" in note for note in found.notes)


@needs_cases
def test_exact_tie_is_labelled_and_its_change_is_a_tie_flip(tmp_path: Path) -> None:
    def break_tie(records: list[dict[str, Any]]) -> None:
        records[0]["filtered_resps"][1][0] = "-1.0"
        records[0]["acc"] = 0.0

    changed = tmp_path / "changed.jsonl"
    write_changed(CASES / "exact_tie.jsonl", changed, break_tie)
    table = read_tables([(A, CASES / "exact_tie.jsonl"), (B, changed)])[0]
    assert table.flags["tie"].tolist() == [[True, False], [False, False]]
    found = attribute(table, A, B)
    assert found.flips is not None
    assert (found.flips.ties, found.flips.right_to_wrong) == (1, 1)


@needs_cases
def test_fewshot_mismatch_is_refused_with_count_and_example() -> None:
    pair = [(A, CASES / "fewshot_mismatch_a.jsonl"), (B, CASES / "fewshot_mismatch_b.jsonl")]
    with pytest.raises(TableError, match=r"prompt_hash differs on 20 of 20 items.*doc 0: bd543a"):
        read_tables(pair)


@needs_cases
def test_truncated_line_is_an_error_that_names_file_and_line() -> None:
    with pytest.raises(SampleError, match=r"truncated_last_line\.jsonl: line 6"):
        read_one("truncated_last_line.jsonl")


@needs_cases
def test_array_is_read() -> None:
    assert len(read_one("array_not_lines.jsonl").keys) == 4


@needs_cases
def test_pair_metric_is_left_out_with_a_note() -> None:
    table = read_one("pair_metric.jsonl")
    assert table.metric == "exact_match"
    assert any("'f1' is a list per item" in note for note in table.notes)
    with pytest.raises(TableError, match="metric 'f1'"):
        read_tables([(A, CASES / "pair_metric.jsonl")], metric="f1")


@needs_cases
def test_extraction_only_flips_stand_apart(tmp_path: Path) -> None:
    def mend(records: list[dict[str, Any]]) -> None:
        for record in records:
            record["exact_match"] = 1.0

    right = tmp_path / "right.jsonl"
    write_changed(CASES / "extraction_only.jsonl", right, mend)
    table = read_tables([(A, right), (B, CASES / "extraction_only.jsonl")])[0]
    assert table.flags["extraction_only"].tolist() == [[False] * 3, [True] * 3]
    found = attribute(table, A, B)
    assert found.flips is not None
    assert (found.flips.right_to_wrong, found.flips.extraction_only) == (3, 3)


@needs_cases
def test_ten_arguments_stay_in_numeric_order() -> None:
    ((_, record),) = iterate_records(CASES / "ten_arguments.jsonl")
    shuffled = {**record, "arguments": dict(sorted(record["arguments"].items()))}
    assert list(shuffled["arguments"])[2] == "gen_args_10"
    assert [r["arg_1"] for r in ordered_arguments(shuffled)] == [f" choice {k}" for k in range(12)]
    scores = choice_scores(shuffled)
    assert scores is not None
    assert scores["10: choice 10"] == -11.0


@needs_cases
@pytest.mark.parametrize("drop", [0, 7])
def test_short_item_set_is_refused(tmp_path: Path, drop: int) -> None:
    short = tmp_path / "short.jsonl"
    write_changed(CASES / "two_filters_a.jsonl", short, lambda records: records.pop(drop))
    with pytest.raises(TableError, match=r"1 items of .* are not in .*39 are in both"):
        read_tables([(A, CASES / "two_filters_a.jsonl"), (B, short)])


@needs_cases
def test_repeated_item_is_refused(tmp_path: Path) -> None:
    double = tmp_path / "double.jsonl"
    write_changed(CASES / "two_filters_a.jsonl", double, lambda r: r.append(r[0]))
    with pytest.raises(SampleError, match=r"line 41: .*appears twice"):
        read_tables([(A, double)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("[]", "no rows"),
        ("3\n", "expected an object"),
        ('{"doc_id": 1}\n', "keys .* are missing"),
        ("[" * 100_000, "not complete JSON"),
    ],
)
def test_files_that_are_no_samples_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(SampleError, match=message):
        read_tables([(A, path)])


def test_missing_path_and_bad_label(tmp_path: Path) -> None:
    with pytest.raises(SampleError, match="no such file"):
        read_tables([(A, tmp_path / "nothing")])
    with pytest.raises(SampleError, match=r"no samples_\*\.jsonl"):
        read_tables([(A, tmp_path)])
    with pytest.raises(TableError, match="expected device/backend/precision"):
        read_tables([("mac/torch", tmp_path)])
    with pytest.raises(TableError, match="cell label"):
        read_tables([("mac//fp16", tmp_path)])


@pytest.mark.parametrize(
    ("response", "target", "held"),
    [
        ("The answer is 72. And so on...", "72", True),
        ("\uff17\uff12", "72", True),
        ("$29.00", "29", True),
        ("Step 1: 3*4=12. So 1,234 apples.", "#### 1234", True),
        ("It is 71.", "72", False),
        ("72 eggs, minus 3, is 69", "72", False),
        ("no number", "72", False),
        ("PARIS.", "Paris", True),
        ("London", "Paris", False),
        ("", "", False),
    ],
)
def test_what_holds_the_answer(response: str, target: str, held: bool) -> None:
    assert holds_answer(response, target) is held
