"""A split that cannot be shown becomes its reason, never a crash and never an empty section."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_results import Scenario, write_attribution, write_results

from sameweights.report.split import KEYS, OUTCOME_KEYS, read_split
from sameweights.warehouse import build_warehouse


@pytest.fixture(scope="module")
def attribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_results(tmp_path_factory.mktemp("results"), Scenario(n=12))
    build_warehouse(folder, folder / "warehouse.duckdb")
    return write_attribution(folder)


def error_of(path: Path, value: Any) -> str:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    split = read_split(path)
    assert split is not None and list(split) == ["error"]
    return str(split["error"])


def test_a_real_attribution_passes_unchanged(attribution: Path) -> None:
    assert read_split(attribution) == json.loads(attribution.read_bytes())


def test_without_a_path_there_is_nothing() -> None:
    assert read_split(None) is None


def test_absent_file_is_named_without_its_folder(tmp_path: Path) -> None:
    assert read_split(tmp_path / "a.json") == {"error": "there is no a.json"}


def test_reason_of_the_attribution_is_kept(tmp_path: Path) -> None:
    assert error_of(tmp_path / "a.json", {"error": "cell x"}) == "cell x"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('{"outcomes": {"sco', "a.json is not JSON: Unterminated string"),
        ("", "a.json is not JSON"),
        ([], "an object is needed, found list"),
        ({}, "without 'reference', 'target'"),
        ({"error": 3}, "key 'error' is no text"),
        ({key: [] for key in KEYS}, "key 'outcomes' is list"),
        ({**dict.fromkeys(KEYS), "outcomes": {"score": 1}}, "outcome 'score' is int"),
    ],
)
def test_broken_file_says_what_is_wrong(tmp_path: Path, value: Any, says: str) -> None:
    assert says in error_of(tmp_path / "a.json", value)


@pytest.mark.parametrize("key", OUTCOME_KEYS)
def test_outcome_without_a_key_names_both(attribution: Path, tmp_path: Path, key: str) -> None:
    split = json.loads(attribution.read_bytes())
    del split["outcomes"]["score"][key]
    assert f"outcome 'score' without '{key}'" in error_of(tmp_path / "a.json", split)
