"""The command line on files that others made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sameweights.attribution.cli import app
from sameweights.errors import UserError

R, P, T = "mac/torch/fp16", "jetson/torch/fp16", "jetson/trtllm/int8"
CELLS = ["--reference", R, "--target", T]


def invoke(*options: str) -> Any:
    return CliRunner().invoke(app, [*CELLS, *options])


def write_samples(folder: Path, task: str, wrong: set[int]) -> Path:
    folder.mkdir(exist_ok=True)
    lines = []
    for doc_id in range(20):
        answer = "no" if doc_id in wrong else str(doc_id)
        record = {
            "doc_id": doc_id,
            "doc": {"passage": doc_id // 4},
            "target": str(doc_id),
            "resps": [[answer]],
            "filtered_resps": [answer],
            "filter": "none",
            "metrics": ["exact_match"],
            "exact_match": float(answer == str(doc_id)),
            "doc_hash": f"d{task}{doc_id}",
            "prompt_hash": f"p{task}{doc_id}",
        }
        lines.append(json.dumps(record) + "\n")
    path = folder / f"samples_{task}_2026-05-01T10-00-00.123456.jsonl"
    path.write_text("".join(lines))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    wrong: dict[str, set[int]] = {R: {1}, P: {1, 2}, T: {1, 2, 3, 4}}
    options = []
    for k, (label, items) in enumerate(wrong.items()):
        for task in ("gsm8k", "other_task"):
            write_samples(tmp_path / f"run{k}", task, items)
        options += ["--samples", f"{label}={tmp_path / f'run{k}'}"]
    return options


def test_drop_is_split_from_plain_sample_folders(runs: list[str]) -> None:
    result = invoke(*runs, "--rule", "trtllm needs jetson", "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)["attributions"]
    score = found["outcomes"]["score"]
    assert (found["n_items"], found["n_strata"]) == (40, 2)
    assert score["total"]["estimate"] == pytest.approx(-0.15)
    assert [b["name"] for b in score["blocks"]] == ["device", "backend+precision"]
    assert score["next_cells"][0]["cell"] == "jetson/trtllm/fp16"
    text = invoke(*runs, "--rule", "trtllm needs jetson", "--outcome", "score").output
    assert "refused: backend, precision, interaction" in text
    assert "run next: jetson/trtllm/fp16" in text


def test_items_of_one_passage_are_one_cluster(runs: list[str]) -> None:
    (found,) = json.loads(invoke(*runs, "--cluster", "passage", "--json").output)["attributions"]
    assert (found["n_items"], found["n_clusters"]) == (40, 10)
    assert "doc has no field 'page'" in str(invoke(*runs, "--cluster", "page").exception)


def test_plain_csv(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    rows = [f"{cell},q{k},A,{int(k > 2 or cell == R)}" for cell in (R, T) for k in range(9)]
    path.write_text("cell,item,answer,correct\n" + "\n".join(rows) + "\n")
    (found,) = json.loads(invoke("--items", str(path), "--json").output)["attributions"]
    assert found["outcomes"]["score"]["total"]["estimate"] == pytest.approx(-3 / 9)
    for bad, message in (("cell,item\n", "columns"), ("cell,item,answer,correct\n", "no rows")):
        path.write_text(bad)
        assert message in str(invoke("--items", str(path)).exception)
    path.write_text("cell,item,answer,correct\na/b/c,q,A,yes\n")
    assert "line 2: correct 'yes'" in str(invoke("--items", str(path)).exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--samples", "nopath"], "expected label=path"),
        (["--cap", "device=-1", "--items", "missing.csv"], "no such file"),
        (["--items", "missing.csv"], "no such file"),
        (["--warehouse", "missing.duckdb"], "no such warehouse"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: list[str], message: str) -> None:
    found = invoke(*options).exception
    assert isinstance(found, UserError)
    assert message in str(found)
