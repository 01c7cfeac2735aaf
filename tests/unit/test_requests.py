"""Rendering: token ids as stock lm-eval makes them, and errors that a person can act on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from runner.contract import Request, read_jsonl
from sameweights.errors import UserError
from sameweights.requests import render_requests

ROWS = [{"q": f"how many is {i}", "a": str(i), "options": ["one", "two or three"]} for i in (1, 2)]
MEAN = {"aggregation": "mean", "higher_is_better": True}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small tokenizer and a window of 32 tokens; no weights."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["how many is one two or three"], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 32}))
    return folder


def render(folder: Path, model_dir: Path, **changes: Any) -> pl.DataFrame:
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    task = {
        "task": "t",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "generation_kwargs": {"until": ["."], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match", **MEAN}],
        **changes,
    }
    (folder / "t.yaml").write_text(yaml.safe_dump(task))
    out = folder / "s0.parquet"
    render_requests(model_dir, ["t"], 0, None, None, False, folder, out)
    return pl.read_parquet(out)


def test_generation_carries_stops_budget_and_matching_ids(tmp_path: Path, model_dir: Path) -> None:
    rows = render(tmp_path, model_dir)
    assert rows["kind"].to_list() == ["generate"] * 2
    assert rows["until"].to_list() == [[".", "</s>"]] * 2
    assert rows["max_new_tokens"].to_list() == [8, 8]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model_dir)
    assert [tokenizer.decode(ids) for ids in rows["prompt_ids"]] == [row["q"] for row in ROWS]
    sent = [Request.from_json(r) for r in read_jsonl(tmp_path / "s0.jsonl")]
    assert [r.request_id for r in sent] == rows["request_id"].to_list()


def test_options_share_their_prompt_and_equal_requests_travel_once(
    tmp_path: Path, model_dir: Path
) -> None:
    choice = {
        "output_type": "multiple_choice",
        "doc_to_text": "how many",
        "doc_to_choice": "options",
        "doc_to_target": 0,
        "metric_list": [{"metric": "acc", **MEAN}],
    }
    rows = render(tmp_path, model_dir, **choice)
    assert rows.height == 4
    assert len(set(map(tuple, rows["prompt_ids"].to_list()))) == 1
    # Both documents ask the same: two requests travel, four rows keep their place.
    assert len(read_jsonl(tmp_path / "s0.jsonl")) == 2
    docs = pl.read_parquet(tmp_path / "s0.docs.parquet")
    assert docs["choices"].to_list() == [ROWS[0]["options"]] * 2


def test_long_prompt_is_cut_on_the_left_and_marked(tmp_path: Path, model_dir: Path) -> None:
    rows = render(tmp_path, model_dir, doc_to_text="one two or three " * 40 + "{{q}}")
    assert rows["prompt_truncated"].to_list() == [True, True]
    assert set(rows["prompt_ids"].list.len()) == {32 - 8}
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model_dir)
    assert tokenizer.decode(rows["prompt_ids"][0]).endswith(ROWS[0]["q"])


def test_greedy_requests_do_not_depend_on_the_seed(tmp_path: Path, model_dir: Path) -> None:
    rows = render(tmp_path, model_dir)
    again = tmp_path / "again.parquet"
    render_requests(model_dir, ["t"], 5, None, None, False, tmp_path, again)
    assert pl.read_parquet(again)["request_id"].to_list() == rows["request_id"].to_list()


def test_unknown_task_names_the_nearest(tmp_path: Path, model_dir: Path) -> None:
    render(tmp_path, model_dir)
    with pytest.raises(UserError, match="no task 'tt'"):
        render_requests(model_dir, ["tt"], 0, None, None, False, tmp_path, tmp_path / "x.parquet")


def test_setting_that_no_runner_knows_is_an_error(tmp_path: Path, model_dir: Path) -> None:
    settings = {"until": ["."], "max_gen_toks": 8, "num_beams": 4}
    with pytest.raises(UserError, match=r"\['num_beams'\] are not supported"):
        render(tmp_path, model_dir, generation_kwargs=settings)


def test_budget_that_leaves_no_room_is_an_error(tmp_path: Path, model_dir: Path) -> None:
    with pytest.raises(UserError, match="does not fit the model's window of 32"):
        render(tmp_path, model_dir, generation_kwargs={"until": ["."], "max_gen_toks": 32})
