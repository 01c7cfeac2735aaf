"""Equality with stock lm-eval: run the same items both ways on this machine and compare.

Ours: render, the packed runner (torch, fp32, batch 1, independent scoring), score. Stock:
`simple_evaluate` with lm-eval's own `hf` model, fp32, softmax in fp32, batch 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from runner.contract import CellSpec, file_sha256
from sameweights.errors import UserError
from sameweights.models import hash_folder
from sameweights.remote.driver import run_on_device
from sameweights.remote.local import LocalTransport
from sameweights.requests import render_requests
from sameweights.score import score_runs

SEED = 0


@dataclass(frozen=True)
class Difference:
    """One per-item value that is not the same both ways."""

    task: str
    doc_id: int
    what: str
    ours: Any
    stock: Any


def run_ours(
    model_dir: Path,
    tasks: Path,
    names: Sequence[str],
    limit: int | None,
    pyz: Path,
    folder: Path,
    chat_template: bool = False,
) -> pl.DataFrame:
    """Return items.parquet of one run; leaves requests and responses in `folder`."""
    requests = folder / "requests.parquet"
    render_requests(model_dir, names, SEED, limit, None, chat_template, tasks, requests)
    jsonl = requests.with_suffix(".jsonl")
    spec = CellSpec(
        cell="m/here/torch/fp32/s0",
        model="m",
        device="here",
        backend="torch",
        precision="fp32",
        seed=SEED,
        replicate=0,
        adapter="torch",
        options={"batch_size": 1, "attention": "sdpa", "scoring": "independent"},
        recipe={"weights": "fp32", "activations": "fp32", "compute": "fp32"},
        env={},
        threads=1,
        files=hash_folder(model_dir),
        requests_sha256=file_sha256(jsonl),
    )
    out = folder / "run"
    out.mkdir(parents=True, exist_ok=True)
    cell_json = out / "cell.json"
    cell_json.write_text(json.dumps(spec.to_json()), encoding="utf-8")
    device = LocalTransport(folder / "device")
    record = run_on_device(device, pyz, cell_json, jsonl, model_dir, out)
    if record.outcome != "complete":
        raise UserError(f"{out}: the run {record.outcome}: {record.reason}")
    score_runs(requests, model_dir, tasks, [out], folder / "scores.json")
    return pl.read_parquet(out / "items.parquet")


def run_stock(
    model_dir: Path,
    tasks: Path,
    names: Sequence[str],
    limit: int | None,
    chat_template: bool = False,
) -> Any:
    """Return lm-eval's own results with samples, one thread as in `run_ours`."""
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    torch.set_num_threads(1)
    model = HFLM(
        pretrained=str(model_dir),
        dtype="float32",
        softmax_dtype="float32",
        batch_size=1,
        device="cpu",
    )
    return simple_evaluate(
        model=model,
        tasks=list(names),
        limit=limit,
        apply_chat_template=chat_template,
        bootstrap_iters=0,
        log_samples=True,
        random_seed=SEED,
        numpy_random_seed=SEED,
        torch_random_seed=SEED,
        fewshot_random_seed=SEED,
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
    )


def find_differences(ours: pl.DataFrame, stock: Any) -> tuple[int, list[Difference]]:
    """Compare values, hashes and generated texts item by item; return (compared, differences)."""
    rows = {
        (r["task"], r["doc_id"], r["filter"], r["metric"]): r for r in ours.iter_rows(named=True)
    }
    compared, found = 0, []
    for task, samples in stock["samples"].items():
        for sample in samples:
            for metric in sample["metrics"]:
                if not isinstance(sample[metric], (int, float)):
                    continue
                row = rows.get((task, sample["doc_id"], sample["filter"], metric), {})
                pairs = {metric: (row.get("value"), sample[metric])}
                pairs |= {k: (row.get(k), sample[k]) for k in ("doc_hash", "prompt_hash")}
                if isinstance(sample["resps"][0][0], str):
                    pairs["text"] = (row.get("answer_text"), sample["resps"][0][0])
                compared += 1
                found += [
                    Difference(task, sample["doc_id"], what, mine, theirs)
                    for what, (mine, theirs) in pairs.items()
                    if mine != theirs
                ]
    return compared, found
