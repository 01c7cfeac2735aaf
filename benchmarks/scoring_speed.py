"""Shared against independent scoring, and both against stock lm-eval `hf`, side by side.

    python benchmarks/scoring_speed.py --model DIR --data DIR [--items 60] [--batch-size 8]

`--data` holds mmlu.jsonl and hellaswag.jsonl. All ways get the same token ids, in one process,
with one thread, in fp32. `stock` is lm-eval as it comes: its logits cache runs the one-token
choices of an MMLU item in one pass already. `stock-uncached` runs every choice in full. Seconds
are CPU seconds: with one thread, wall time on a quiet machine; they hold on a busy one. Exits
with 1 where shared scoring is less than `--at-least` times as fast as the one named `--against`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.contract import CellSpec, Request
from runner.host import set_environment

FP32 = {"weights": "fp32", "activations": "fp32", "compute": "fp32"}
SETS = ("mmlu", "hellaswag")
Score = Callable[[list[Request]], list[float]]


@dataclass(frozen=True)
class Timed:
    """What one way of scoring took for one set, and the log-likelihood of every request."""

    seconds: float
    values: list[float]


def read_items(path: Path, limit: int) -> list[tuple[str, list[str]]]:
    """Return (prompt, continuations) of items spread evenly over the file (MMLU is by subject)."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    step = max(1, len(records) // limit)
    return [render(record) for record in records[::step][:limit]]


def render(record: dict[str, Any]) -> tuple[str, list[str]]:
    """Return prompt and continuations in the layout of lm-eval's own tasks."""
    if "query" in record:
        return record["query"], [" " + choice for choice in record["choices"]]
    subject = record["subject"].replace("_", " ")
    head = f"The following are multiple choice questions (with answers) about {subject}.\n\n"
    lines = [f"{letter}. {c}" for letter, c in zip("ABCD", record["choices"], strict=True)]
    body = "\n".join([record["question"].strip(), *lines, "Answer:"])
    return head + body, [" A", " B", " C", " D"]


def make_requests(items: list[tuple[str, list[str]]], tokenizer: Any) -> list[list[Request]]:
    """Return one list of log-likelihood requests an item."""

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    return [[Request("loglikelihood", encode(p), encode(c)) for c in cs] for p, cs in items]


def open_ours(model: Path, scoring: str, batch_size: int) -> Score:
    """Return a function that scores with our torch backend."""
    from runner.backends.torch import Backend

    options = {"batch_size": batch_size, "scoring": scoring}
    spec = CellSpec("b", "b", "b", "b", "fp32", 0, 0, "torch", options, FP32, {}, 1, {}, "")
    backend = Backend(model, spec)

    def score(requests: list[Request]) -> list[float]:
        found = {
            response.request_id: response.loglikelihood
            for batch in backend.plan(requests)
            for response in backend.loglikelihood(batch)
        }
        return [float(found[r.request_id] or 0.0) for r in requests]

    return score


def open_stock(model: Path, batch_size: int, logits_cache: bool) -> tuple[Score, Any]:
    """Return a function that scores with lm-eval's own class, and its tokenizer.

    With its logits cache (the default) stock runs one-token continuations of one prompt once.
    """
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(
        pretrained=str(model),
        device="cpu",
        dtype="float32",
        softmax_dtype="float32",
        batch_size=batch_size,
        add_bos_token=False,
        logits_cache=logits_cache,
    )

    def score(requests: list[Request]) -> list[float]:
        rows = [(("", ""), r.prompt_ids, r.continuation_ids) for r in requests]
        return [value for value, _ in lm._loglikelihood_tokens(rows, disable_tqdm=True)]

    return score, lm.tokenizer


def measure(score: Score, items: list[list[Request]]) -> Timed:
    """Score all items once and take the time; equal requests are scored for each item."""
    requests = [request for item in items for request in item]
    # Equal requests have one id and one response: keep the work of all ways the same.
    unique = list({request.request_id: request for request in requests}.values())
    started = time.process_time()
    values = score(unique)
    seconds = time.process_time() - started
    by_id = {r.request_id: value for r, value in zip(unique, values, strict=True)}
    return Timed(seconds, [by_id[request.request_id] for request in requests])


def count_answers(items: list[list[Request]], first: Timed, second: Timed) -> int:
    """Count items whose best choice (by sum of log-probabilities) differs."""
    changed = position = 0
    for item in items:
        span = slice(position, position + len(item))
        position += len(item)
        best = [max(range(len(item)), key=t.values[span].__getitem__) for t in (first, second)]
        changed += best[0] != best[1]
    return changed


def report(name: str, items: list[list[Request]], timed: dict[str, Timed]) -> None:
    """Print one set's lines."""
    shared = timed["shared"]
    print(f"{name}: {len(items)} items; CPU seconds")
    for way, other in timed.items():
        largest = max(abs(a - b) for a, b in zip(shared.values, other.values, strict=True))
        print(
            f"  {way:14s} {other.seconds:7.1f} s; shared is {other.seconds / shared.seconds:.2f} "
            f"times as fast; {count_answers(items, shared, other)} answers differ from shared's; "
            f"largest difference {largest:.2g} nats",
            flush=True,
        )


def main() -> int:
    """Measure, print, and fail below the wanted ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, required=True, help="safetensors folder")
    parser.add_argument("--data", type=Path, required=True, help="folder of the item files")
    parser.add_argument("--items", type=int, default=60, help="items of each set")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--at-least", type=float, default=2.5, help="wanted ratio to stock")
    parser.add_argument("--against", default="stock", choices=("stock", "stock-uncached"))
    options = parser.parse_args()
    set_environment({}, threads=1)
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    stock, tokenizer = open_stock(options.model, options.batch_size, logits_cache=True)
    ways: dict[str, Score] = {
        "stock": stock,
        "stock-uncached": open_stock(options.model, options.batch_size, logits_cache=False)[0],
        "independent": open_ours(options.model, "independent", options.batch_size),
        "shared": open_ours(options.model, "shared", options.batch_size),
    }
    totals = dict.fromkeys(ways, 0.0)
    for name in SETS:
        items = make_requests(read_items(options.data / f"{name}.jsonl", options.items), tokenizer)
        for score in ways.values():
            score(items[0])  # The first pass allocates and picks kernels.
        timed = {way: measure(score, items) for way, score in ways.items()}
        report(name, items, timed)
        for way in ways:
            totals[way] += timed[way].seconds
    for way, seconds in totals.items():
        print(f"together: shared is {seconds / totals['shared']:.2f} times as fast as {way}")
    return 0 if totals[options.against] / totals["shared"] >= options.at_least else 1


if __name__ == "__main__":
    raise SystemExit(main())
