"""Answers are cut at the first divergent token."""

from __future__ import annotations

from sameweights.report.tables import _cut, _first_difference

TEXTS = {1: "the", 2: " cat", 3: " car", 4: "s", 5: ""}


def test_token_that_shares_its_beginning_is_marked_whole() -> None:
    left = _cut("the cats", "the cars", [1, 2, 4], 1, TEXTS)
    assert (left.same, left.token, left.rest) == ("the", " cat", "s")
    right = _cut("the cars", "the cats", [1, 3, 4], 1, TEXTS)
    assert (right.same, right.token, right.rest) == ("the", " car", "s")


def test_answer_that_ends_first_is_marked_at_its_end() -> None:
    found = _cut("the", "the cat", [1, 5], 1, TEXTS)
    assert (found.same, found.token, found.rest) == ("the", "⏎", "")


def test_choice_differs_as_a_whole() -> None:
    found = _cut("the cat", "the car", None, None, TEXTS)
    assert (found.same, found.token, found.rest) == ("", "the cat", "")
    assert _first_difference(None, None) is None
