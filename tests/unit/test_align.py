"""The comparability gate: another set of items is an error that says which, never a smaller n."""

from __future__ import annotations

import polars as pl
import pytest

from sameweights.align import ComparabilityError, align

NAMES = ("A/r0", "B/r0")


def items(n: int = 4, **changes: object) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "task": ["t"] * n,
            "doc_id": range(n),
            "filter": ["none"] * n,
            "metric": ["acc"] * n,
            "doc_hash": [f"d{i}" for i in range(n)],
            "prompt_hash": [f"p{i}" for i in range(n)],
            "request_ids": [[f"r{i}"] for i in range(n)],
            "status": ["ok"] * n,
            "value": [1.0] * n,
        }
    )
    return frame.with_columns(**{k: pl.lit(v) for k, v in changes.items()})


def test_equal_sets_are_joined_whatever_their_order() -> None:
    joined = align(items(), items().reverse(), NAMES)
    assert joined["doc_id"].to_list() == [0, 1, 2, 3]
    assert joined["request_ids"].to_list() == joined["request_ids_b"].to_list()


def test_failed_items_stay_in_the_alignment() -> None:
    assert align(items(), items(status="error"), NAMES)["status_b"].to_list() == ["error"] * 4


def test_short_set_names_the_run_and_an_example() -> None:
    with pytest.raises(ComparabilityError, match=r"B/r0 lacks 1 of A/r0's 4 rows.*doc_id 3"):
        align(items(), items(3), NAMES)
    with pytest.raises(ComparabilityError, match=r"A/r0 lacks 1 of B/r0's 4 rows.*doc_id 3"):
        align(items(3), items(), NAMES)


def test_disjoint_sets() -> None:
    with pytest.raises(ComparabilityError, match="share no item"):
        align(items(), items(task="other"), NAMES)


def test_doubled_key() -> None:
    with pytest.raises(ComparabilityError, match="B/r0 has 8 rows with a doubled key"):
        align(items(), pl.concat([items(), items()]), NAMES)


@pytest.mark.parametrize("column", ["doc_hash", "prompt_hash"])
def test_other_documents_or_prompts(column: str) -> None:
    with pytest.raises(ComparabilityError, match=rf"differ in {column} on 4 of 4 rows"):
        align(items(), items(**{column: "x"}), NAMES)


def test_other_requests() -> None:
    other = items().with_columns(request_ids=pl.Series([["x"]] * 4))
    with pytest.raises(ComparabilityError, match="differ in request_ids on 4 of 4"):
        align(items(), other, NAMES)


def test_missing_hash_is_no_proof_of_equality() -> None:
    other = items().with_columns(doc_hash=pl.lit(None, dtype=pl.String))
    with pytest.raises(ComparabilityError, match="differ in doc_hash on 4 of 4"):
        align(items(), other, NAMES)
