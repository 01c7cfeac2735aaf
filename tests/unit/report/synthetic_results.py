"""A made-up results folder in the shape that the scoring stage leaves behind.

Two tasks (one generated, one multiple choice), six planned cells: four ran, one was stopped by its
canary, one is excluded. No model runs; answers are drawn with a fixed seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from tokenizers import Tokenizer, decoders, models

from runner.contract import CellSpec, Request, Response, RunRecord, digest, write_jsonl
from sameweights.attribution.api import attribute
from sameweights.attribution.warehouse_mechanism import add_mechanism
from sameweights.attribution.warehouse_source import read_comparisons
from sameweights.requests import DOC_SCHEMA, REQUEST_SCHEMA
from sameweights.score import ITEM_SCHEMA

MODEL = "toy"
WORDS = ["The", " sum", " is", " about", " 1", " 2", " 3", " 4", " 5", " 6", ".", "<eos>"]
REFERENCE, TARGET = "dev-a/torch/bf16", "dev-b/torch/w8a16"
CHANGE_RATE = {"dev-a/bf16": 0.0, "dev-a/w8a16": 0.3, "dev-b/bf16": 0.1, "dev-b/w8a16": 0.45}
STOPPED, EXCLUDED = "dev-c/bf16", "dev-c/w8a16"
CHOICES = ["north", "south-west", "east", "west"]


@dataclass(frozen=True)
class Scenario:
    """What to make: items a task, replicates, the answer texts of the target's first items.

    `unstable`: cells whose second replicate differs on the first generated item. `failed`: cells
    whose first generated item timed out. `broken`: cells that answered no generated item.
    """

    n: int = 20
    replicates: int = 2
    texts: Mapping[int, str] = field(default_factory=dict)
    prompts: Mapping[int, str] = field(default_factory=dict)
    unstable: tuple[str, ...] = ("dev-a/w8a16",)
    failed: tuple[str, ...] = ("dev-b/bf16",)
    broken: tuple[str, ...] = ()
    note: str = "One machine's kernels under an instruction-set cap, not a machine of its own."


def write_results(folder: Path, scenario: Scenario = Scenario()) -> Path:
    """Write matrix.json, models, requests and cells below `folder`; returns it."""
    requests = make_requests(scenario)
    _write_model(folder)
    _write_requests(folder, requests, scenario)
    cells = []
    for name in [*CHANGE_RATE, STOPPED, EXCLUDED]:
        device, precision = name.split("/")
        cell = f"{MODEL}/{device}/torch/{precision}/s0"
        excluded = name == EXCLUDED
        replicates = [] if excluded else list(range(scenario.replicates))
        cells.append(
            {
                "cell": cell,
                "model": MODEL,
                "device": device,
                "backend": "torch",
                "precision": precision,
                "seed": 0,
                "replicates": replicates,
                "state": "excluded" if excluded else "planned",
                "reason": "takes <too> long" if excluded else None,
                "path": f"cells/{cell}",
            }
        )
        for replicate in replicates:
            _write_run(folder / f"cells/{cell}/r{replicate}", name, replicate, requests, scenario)
    devices = {name: {"note": scenario.note} for name in ("dev-a", "dev-b", "dev-c")}
    matrix = {"reference": REFERENCE, "target": TARGET, "devices": devices, "cells": cells}
    (folder / "matrix.json").write_text(json.dumps(matrix))
    return folder


def write_attribution(folder: Path) -> Path:
    """Write attribution.json of a results folder whose warehouse stands; returns its path."""
    found = read_comparisons(folder / "warehouse.duckdb", REFERENCE, TARGET, primary=True)[0]
    path = folder / "attribution.json"
    split = attribute(found.table, found.reference, found.target)
    found_with_mechanism = add_mechanism(folder / "warehouse.duckdb", split)
    path.write_text(json.dumps(found_with_mechanism.to_dict(items=True)))
    return path


@dataclass(frozen=True)
class Item:
    task: str
    doc_id: int
    requests: tuple[Request, ...]


def make_requests(scenario: Scenario) -> list[Item]:
    items = []
    for n in range(scenario.n):
        generate = Request("generate", [n, 1, 2], until=["\n"], max_new_tokens=8)
        items.append(Item("arith", n, (generate,)))
        scored = [Request("loglikelihood", [n, 7], [k]) for k in range(len(CHOICES))]
        items.append(Item("choice", n, tuple(scored)))
    return items


def _write_model(folder: Path) -> None:
    (folder / "models" / MODEL).mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, "."))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "models" / MODEL / "tokenizer.json"))


def _write_requests(folder: Path, items: list[Item], scenario: Scenario) -> None:
    base = folder / "requests" / MODEL
    base.mkdir(parents=True)
    rows = [
        {
            **request.to_json(),
            "task": item.task,
            "doc_id": item.doc_id,
            "request_index": index,
            "prompt_truncated": False,
            **_hashes(item),
        }
        for item in items
        for index, request in enumerate(item.requests)
    ]
    rows = [{key: row[key] for key in REQUEST_SCHEMA} for row in rows]
    pl.DataFrame(rows, schema=REQUEST_SCHEMA).write_parquet(base / "s0.parquet")
    docs = [
        {
            "task": item.task,
            "doc_id": item.doc_id,
            "prompt": scenario.prompts.get(item.doc_id, f"Question {item.doc_id} of {item.task}?"),
            "target": "3",
            "choices": CHOICES if item.task == "choice" else None,
        }
        for item in items
    ]
    pl.DataFrame(docs, schema=DOC_SCHEMA).write_parquet(base / "s0.docs.parquet")


def _hashes(item: Item) -> dict[str, str]:
    return {
        "doc_hash": digest([item.task, item.doc_id]),
        "prompt_hash": digest(["prompt", item.task, item.doc_id]),
    }


def _write_run(
    folder: Path, name: str, replicate: int, items: list[Item], scenario: Scenario
) -> None:
    folder.mkdir(parents=True)
    device, precision = name.split("/")
    spec = CellSpec(
        cell=f"{MODEL}/{device}/torch/{precision}/s0",
        model=MODEL,
        device=device,
        backend="torch",
        precision=precision,
        seed=0,
        replicate=replicate,
        adapter="torch",
        options={"batch_size": 8, "scoring": "shared"},
        recipe={"weights": precision},
        env={"ATEN_CPU_CAPABILITY": device},
        threads=1,
        files={},
        requests_sha256="0" * 64,
    )
    (folder / "cell.json").write_text(json.dumps(spec.to_json()))
    stopped = name == STOPPED
    record = RunRecord(
        cell=spec.cell,
        identity=spec.identity,
        outcome="stopped" if stopped else "complete",
        reason="canary: 4.2 nats from the reference, allowed 0.1" if stopped else None,
        counts={} if stopped else {"ok": len(items)},
        responses_sha256=None,
        canary={"passed": not stopped, "mean_abs_diff_nats": 4.2 if stopped else 0.02},
        environment={"host": {"cpu": device, "packages": {"torch": "2.13.0"}}},
        timing={"run_s": 12.5},
        started_utc="2026-01-01T00:00:00+00:00",
        ended_utc="2026-01-01T00:01:00+00:00",
    )
    (folder / "run.json").write_text(json.dumps(record.to_json()))
    answers = [] if stopped else [_answer(name, replicate, item, scenario) for item in items]
    write_jsonl(folder / "responses.jsonl", [r.to_json() for a in answers for r in a[0]])
    own = {key: getattr(spec, key) for key in list(ITEM_SCHEMA)[:7]}
    rows = [{**own, **row} for answer in answers for row in answer[1]]
    pl.DataFrame(rows, schema=ITEM_SCHEMA).write_parquet(folder / "items.parquet")


def _answer(
    name: str, replicate: int, item: Item, scenario: Scenario
) -> tuple[list[Response], list[dict[str, Any]]]:
    """Return the responses and the item rows of one item in one run."""
    base = {
        "task": item.task,
        "doc_id": item.doc_id,
        **_hashes(item),
        "request_ids": [request.request_id for request in item.requests],
        "status": "ok",
        "is_tie": False,
    }
    draw = random.Random(f"{name}{item.task}{item.doc_id}")
    changed = draw.random() < CHANGE_RATE[name]
    if item.task == "choice":
        return _choose(item, changed, base, name)
    if name in scenario.broken or (name in scenario.failed and item.doc_id == 0):
        (request,) = item.requests
        failed = Response(request.request_id, "timeout", error="no answer in 60 s")
        row = {**base, "filter": "last", "metric": "match", "target": "3", "status": "timeout"}
        return [failed], [row]
    if replicate == 1 and name in scenario.unstable and item.doc_id == 0:
        changed = not changed
    return _generate(item, changed, base, name, scenario)


def _generate(
    item: Item, changed: bool, base: dict[str, Any], name: str, scenario: Scenario
) -> tuple[list[Response], list[dict[str, Any]]]:
    right = 6 if item.doc_id % 3 else 7
    ids = [0, 1, 2, right, 10, 11]
    if changed:
        ids = [0, 1, 3, 9 if item.doc_id % 2 else 6, 10, 11]
    text = "".join(WORDS[k] for k in ids[:-1])
    if name == "dev-b/w8a16" and item.doc_id in scenario.texts:
        text, ids = scenario.texts[item.doc_id], [0, 5, 5, 11]
    # The third candidate is the usual token, so that a flip is known in both cells.
    usual = [0, 1, 2, right, 10, 11]
    best = [list(dict.fromkeys([k, 4, usual[n]])) for n, k in enumerate(ids)]
    shift = 0.25 * sorted(CHANGE_RATE).index(name)
    gaps = [2.0 - 0.125 * (item.doc_id % 8) + shift * (n % 2) for n in range(len(ids))]
    (request,) = item.requests
    response = Response(
        request.request_id,
        "ok",
        token_ids=ids,
        text=text,
        finish_reason="eos",
        token_logprobs=[-0.25] * len(ids),
        margins=gaps,
        top_ids=best,
        top_logprobs=[
            [-0.25, -0.25 - gap, -0.5 - gap][: len(own)]
            for gap, own in zip(gaps, best, strict=True)
        ],
        logits_sha256=digest([ids, name.split("/")[1]]),
        elapsed_s=0.5,
    )
    row = {
        **base,
        "filter": "last",
        "metric": "match",
        "value": float(WORDS[ids[3]].strip() == "3"),
        "answer_tokens": digest(ids),
        "answer_text": text.encode("utf-8", "backslashreplace").decode(),
        "answer_extracted": WORDS[ids[3]].strip(),
        "target": "3",
        "finish_reason": "eos",
    }
    return [response], [row]


def _choose(
    item: Item, changed: bool, base: dict[str, Any], name: str
) -> tuple[list[Response], list[dict[str, Any]]]:
    first = item.doc_id % 4
    scores = [-2.0 - 0.25 * k for k in range(4)]
    scores[first] = -1.0
    if changed:
        scores[(first + 1) % 4] = -0.5
    responses = [
        Response(
            request.request_id,
            "ok",
            loglikelihood=score,
            is_greedy=False,
            token_logprobs=[score],
            logits_sha256=digest([name, score]),
            elapsed_s=0.1,
        )
        for request, score in zip(item.requests, scores, strict=True)
    ]
    rows = []
    for metric in ("acc", "acc_norm"):
        sizes = [len(c) if metric == "acc_norm" else 1 for c in CHOICES]
        ranked = [score / size for score, size in zip(scores, sizes, strict=True)]
        best = ranked.index(max(ranked))
        ordered = sorted(ranked, reverse=True)
        rows.append(
            {
                **base,
                "filter": "none",
                "metric": metric,
                "value": float(best == (0 if item.doc_id % 2 else first)),
                "answer_tokens": digest(best),
                "answer_text": CHOICES[best],
                "answer_extracted": str(best),
                "target": "0",
                "margin": ordered[0] - ordered[1],
            }
        )
    return responses, rows
