"""Equality with stock lm-eval on MMLU, HellaSwag and GSM8K items from local files.

    python benchmarks/stock_equality.py --data DIR --model results/models/smollm2-135m-instruct
        [--mmlu 1140] [--hellaswag 200] [--gsm8k 50]

DIR holds mmlu.jsonl (question, choices, answer), hellaswag.jsonl (query, choices, gold) and
gsm8k.jsonl (question, answer). Prints the score of each set both ways and every difference;
exits 1 when there is one. All items at batch 1 on one thread take about two hours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
import yaml

from runner.pack import build_pyz
from sameweights.equality import find_differences, run_ours, run_stock

MEAN = {"aggregation": "mean", "higher_is_better": True}
LETTERS = "".join(f"{letter}. {{{{choices[{n}]}}}}\n" for n, letter in enumerate("ABCD"))
TASKS = {
    "mmlu": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}\n" + LETTERS + "Answer:",
        "doc_to_choice": ["A", "B", "C", "D"],
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc", **MEAN}],
    },
    "hellaswag": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{query}}",
        "doc_to_choice": "choices",
        "doc_to_target": "gold",
        "metric_list": [{"metric": "acc", **MEAN}, {"metric": "acc_norm", **MEAN}],
    },
    "gsm8k": {
        "output_type": "generate_until",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "{{answer.split('####')[-1].strip()}}",
        "generation_kwargs": {"until": ["Question:"], "max_gen_toks": 256},
        "filter_list": [
            {
                "name": "flexible",
                "filter": [
                    {
                        "function": "regex",
                        "group_select": -1,
                        "regex_pattern": "(-?[0-9][0-9.,]*)",
                    },
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [{"metric": "exact_match", **MEAN}],
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    for name, count in (("mmlu", 1140), ("hellaswag", 200), ("gsm8k", 50)):
        parser.add_argument(f"--{name}", type=int, default=count)
    arguments = parser.parse_args()
    wrong = 0
    for name, body in TASKS.items():
        folder = Path(tempfile.mkdtemp())
        task = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(arguments.data / f"{name}.jsonl")}},
            "test_split": "test",
            "metadata": {"version": 1},
            **body,
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(task))
        limit = getattr(arguments, name)
        pyz = build_pyz(folder / "runner.pyz")
        started = time.monotonic()
        ours = run_ours(arguments.model, folder, [name], limit, pyz, folder)
        middle = time.monotonic()
        stock = run_stock(arguments.model, folder, [name], limit)
        ended = time.monotonic()
        compared, differences = find_differences(ours, stock)
        scores = ours.group_by("metric").agg(pl.col("value").mean()).sort("metric").rows()
        print(
            f"{name}: {limit} items, {compared} values compared, {len(differences)} differ; "
            f"scores {scores}; ours {middle - started:.0f} s, stock {ended - middle:.0f} s"
        )
        for difference in differences[:20]:
            print(f"  {difference}")
        wrong += len(differences)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
