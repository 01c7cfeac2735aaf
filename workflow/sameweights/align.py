"""The comparability gate: two runs are compared on the same items, or not at all."""

from __future__ import annotations

import polars as pl

from sameweights.errors import UserError

KEY = ["task", "doc_id", "filter", "metric"]
MUST_EQUAL = ["doc_hash", "prompt_hash", "request_ids"]


class ComparabilityError(UserError):
    """Two runs are not the same items; says which, how many, and one example."""


def align(left: pl.DataFrame, right: pl.DataFrame, names: tuple[str, str]) -> pl.DataFrame:
    """Join the items of two runs on task, doc_id, filter and metric; right columns get `_b`.

    Raises ComparabilityError for doubled keys, disjoint or differing sets, and for items whose
    document, prompt or requests are not the same. Items that failed stay, with their status.
    """
    for frame, name in ((left, names[0]), (right, names[1])):
        doubled = frame.filter(frame.select(KEY).is_duplicated())
        if doubled.height:
            _refuse(f"{name} has {doubled.height} rows with a doubled key", doubled)
    joined = left.join(right, on=KEY, how="inner", suffix="_b", maintain_order="left")
    if left.height and right.height and not joined.height:
        _refuse(f"{names[0]} and {names[1]} share no item", left)
    _refuse_missing(left, right, names[0], names[1])
    _refuse_missing(right, left, names[1], names[0])
    for column in MUST_EQUAL:
        # A missing hash is no proof of equality: null beside a hash differs.
        differing = joined.filter(pl.col(column).ne_missing(pl.col(f"{column}_b")))
        if differing.height:
            _refuse(
                f"{names[0]} and {names[1]} differ in {column} on {differing.height} of "
                f"{joined.height} rows",
                differing,
            )
    return joined


def _refuse_missing(frame: pl.DataFrame, other: pl.DataFrame, name: str, short: str) -> None:
    lacking = frame.join(other, on=KEY, how="anti", maintain_order="left")
    if lacking.height:
        _refuse(f"{short} lacks {lacking.height} of {name}'s {frame.height} rows", lacking)


def _refuse(problem: str, rows: pl.DataFrame) -> None:
    example = ", ".join(f"{key} {rows[key][0]!r}" for key in KEY)
    raise ComparabilityError(f"not comparable: {problem}; for example {example}")
