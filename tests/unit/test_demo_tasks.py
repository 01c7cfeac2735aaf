"""The demo's task sets: the committed files are what the generator makes, and are answerable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sameweights.demo_tasks import N_ITEMS, SETS, make_items, write_sets


@pytest.mark.parametrize("name", SETS)
def test_committed_file_is_the_generators(name: str, root: Path, tmp_path: Path) -> None:
    write_sets(tmp_path)
    committed = root / "config" / "tasks" / "data" / f"{name}.jsonl"
    assert committed.read_bytes() == (tmp_path / f"{name}.jsonl").read_bytes()


@pytest.mark.parametrize("name", SETS)
def test_items_are_different(name: str) -> None:
    items = [json.dumps(item, sort_keys=True) for item in make_items(name)]
    assert len(set(items)) == len(items) == N_ITEMS


def test_word_problems_have_the_answer_that_their_numbers_give() -> None:
    for item in make_items("demo_arith"):
        found = [int(text) for text in re.findall(r"\d+", item["question"])]
        expected = {
            "add": lambda n: n[0] + n[1],
            "take": lambda n: n[0] - n[1],
            "times": lambda n: n[0] * n[1],
            "add_take": lambda n: n[0] + n[1] - n[2],
        }[item["kind"]](found)
        assert item["answer"] == str(expected), item


def test_right_choice_is_said_of_the_person_asked_about_and_one_other_of_the_other() -> None:
    for item in make_items("demo_choice"):
        options = [choice.rstrip(".") for choice in item["choices"]]
        assert len(set(options)) == 4
        asked, other = sorted(
            re.findall(r"[A-Z][^.]*\.", item["passage"]),
            key=lambda sentence: sentence.split()[0] not in item["question"],
        )
        said = [set(re.findall(r"\w+", sentence)) for sentence in (asked, other)]
        assert [option in said[0] for option in options].index(True) == item["gold"], item
        assert sum(option in said[0] for option in options) == 1, item
        assert sum(option in said[1] for option in options) == 1, item


def test_command_holds_the_identifiers_asked_for_and_not_the_other_interface() -> None:
    for item in make_items("demo_tools"):
        identifiers = re.findall(r"--(?:if|port|address) (\S+)", item["command"])
        assert len(identifiers) == 2, item
        wanted, unwanted = item["request"].split(", not on ")
        assert all(re.search(rf"(?<!\S){re.escape(i)}(?!\S)", wanted) for i in identifiers), item
        assert unwanted not in identifiers, item
