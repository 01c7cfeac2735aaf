"""Equality with stock lm-eval: the check on which "render once, score once" rests.

On one machine, batch 1, fp32: per-item results of our render -> runner -> score path equal those
of `simple_evaluate` with lm-eval's own `hf` model, for three request types.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest
import yaml

from runner.pack import build_pyz
from sameweights.equality import find_differences, run_ours, run_stock

ITEMS = 8
NAMES = ("eq_generate", "eq_choice", "eq_rolling", "eq_few_shot")

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.stock]


def write_tasks(folder: Path) -> None:
    """Write four small tasks over one generated file: one a request type, one with few-shot."""
    draw = random.Random(7)
    names = ["Ada", "Bo", "Cleo", "Dan", "Eve"]
    rows = []
    for _ in range(ITEMS + 4):
        name, a, b = draw.choice(names), draw.randint(2, 40), draw.randint(2, 40)
        rows.append(
            {
                "q": f"{name} has {a} pears and buys {b} more. How many pears has {name} now?",
                "answer": str(a + b),
                "choices": [f"{a + b + d} pears in all" for d in (0, 1, 10, -1)],
                "gold": 0,
            }
        )
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "metadata": {"version": 1},
    }
    mean = {"aggregation": "mean", "higher_is_better": True}
    choice = {
        "output_type": "multiple_choice",
        "doc_to_text": "Question: {{q}}\nAnswer:",
        "doc_to_target": "gold",
        "doc_to_choice": "choices",
        "metric_list": [{"metric": "acc", **mean}, {"metric": "acc_norm", **mean}],
    }
    generate = {
        "output_type": "generate_until",
        "doc_to_text": "Question: {{q}}\nAnswer:",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["Question:", "\n\n"], "max_gen_toks": 24},
        "filter_list": [
            {
                "name": "number",
                "filter": [
                    {"function": "regex", "regex_pattern": "(-?[0-9]+)"},
                    {"function": "take_first"},
                ],
            },
            {"name": "plain", "filter": [{"function": "take_first"}]},
        ],
        "metric_list": [{"metric": "exact_match", **mean}],
    }
    rolling = {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{q}}",
        "metric_list": [
            {
                "metric": "bits_per_byte",
                "aggregation": "bits_per_byte",
                "higher_is_better": False,
            }
        ],
    }
    few_shot = {**generate, "num_fewshot": 2, "fewshot_config": {"sampler": "default"}}
    for name, body in zip(NAMES, (generate, choice, rolling, few_shot), strict=True):
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"task": name, **common, **body}))


@pytest.fixture(scope="module")
def ran(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """Folder of one run of ours over all four tasks, and its items."""
    folder = tmp_path_factory.mktemp("equality")
    (folder / "tasks").mkdir()
    write_tasks(folder / "tasks")
    pyz = build_pyz(folder / "runner.pyz")
    return folder, run_ours(demo_model, folder / "tasks", NAMES, ITEMS, pyz, folder)


def test_scores_and_items_equal_stock_lm_eval(
    demo_model: Path, ran: tuple[Path, pl.DataFrame]
) -> None:
    tasks, ours = ran[0] / "tasks", ran[1]
    assert set(ours["status"]) == {"ok"}
    stock = run_stock(demo_model, tasks, NAMES, ITEMS)
    compared, differences = find_differences(ours, stock)
    assert differences == []
    # 8 items: two filters, two metrics, two filters again; bits_per_byte is a pair, see below.
    assert compared == ITEMS * 6
    assert set(ours["task"]) == set(NAMES) - {"eq_rolling"}


def test_rolling_log_likelihoods_equal_stock(
    demo_model: Path, ran: tuple[Path, pl.DataFrame]
) -> None:
    """bits_per_byte is a pair per item, so the log-likelihoods themselves are compared."""
    import torch
    from lm_eval.models.huggingface import HFLM

    from runner.contract import read_responses
    from sameweights.tasks import load_tasks

    folder = ran[0]
    requests = pl.read_parquet(folder / "requests.parquet").filter(pl.col("task") == "eq_rolling")
    responses = {r.request_id: r for r in read_responses(folder / "run" / "responses.jsonl")}
    ours = [responses[i].loglikelihood for i in requests["request_id"]]
    torch.set_num_threads(1)
    model = HFLM(pretrained=str(demo_model), dtype="float32", softmax_dtype="float32", device="cpu")
    task = load_tasks(["eq_rolling"], 0, None, folder / "tasks")["tasks"]["eq_rolling"]
    task.build_all_requests(limit=ITEMS, rank=0, world_size=1)
    assert ours == pytest.approx(model.loglikelihood_rolling(task.instances), abs=1e-4)


def test_chat_template_and_its_few_shot_turns_equal_stock(demo_model: Path, tmp_path: Path) -> None:
    names, items = ("eq_choice", "eq_few_shot"), 3
    (tmp_path / "tasks").mkdir()
    write_tasks(tmp_path / "tasks")
    pyz = build_pyz(tmp_path / "runner.pyz")
    ours = run_ours(demo_model, tmp_path / "tasks", names, items, pyz, tmp_path, True)
    prompts = pl.read_parquet(tmp_path / "requests.docs.parquet")
    assert all("<|im_start|>user" in prompt for prompt in prompts["prompt"])
    stock = run_stock(demo_model, tmp_path / "tasks", names, items, True)
    compared, differences = find_differences(ours, stock)
    assert differences == []
    assert compared == items * 4
