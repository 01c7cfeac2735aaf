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


def test_right_choice_stands_in_the_passage_beside_what_is_asked() -> None:
    for item in make_items("demo_choice"):
        right = item["choices"][item["gold"]].rstrip(".")
        trips = [trip for trip in item["passage"].split(".") if trip]
        matching = [trip for trip in trips if right in trip]
        asked = [trip for trip in matching if _mentions(trip, item["question"])]
        assert len(asked) == 1, item
        assert len(set(item["choices"])) == 4


def _mentions(trip: str, question: str) -> bool:
    day, rest = trip.strip().removeprefix("On ").split(", ", 1)
    vehicle, place = rest.split(" goes to ")
    return any(part in question for part in (day, vehicle, place))


def test_command_holds_every_identifier_it_needs() -> None:
    for item in make_items("demo_tools"):
        for identifier in re.findall(r"--(?:if|port|to|addr) (\S+)", item["command"]):
            assert identifier in item["request"], item
