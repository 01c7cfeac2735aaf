"""Score once: responses to per-item rows, with lm-eval's own filters and metrics.

No model is loaded. A response that is missing, failed or cut stays a status with an empty value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from runner.contract import CellSpec, Response, RunRecord, digest, file_sha256, read_responses
from sameweights.errors import UserError
from sameweights.replay import ReplayLM
from sameweights.tasks import load_tasks

ITEM_SCHEMA: dict[str, Any] = {
    "cell": pl.String,
    "model": pl.String,
    "device": pl.String,
    "backend": pl.String,
    "precision": pl.String,
    "seed": pl.Int64,
    "replicate": pl.Int64,
    "task": pl.String,
    "doc_id": pl.Int64,
    "filter": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "status": pl.String,
    "reason": pl.String,
    "answer_tokens": pl.String,
    "answer_text": pl.String,
    "answer_extracted": pl.String,
    "is_tie": pl.Boolean,
    "target": pl.String,
    "finish_reason": pl.String,
    "margin": pl.Float64,
    "doc_hash": pl.String,
    "prompt_hash": pl.String,
    "request_ids": pl.List(pl.String),
}


def score_runs(
    requests_parquet: Path,
    model_dir: Path,
    include_path: Path | None,
    run_folders: Sequence[Path],
    out: Path,
) -> None:
    """Write items.parquet beside every run of one (model, seed), then the summary `out`.

    Raises UserError when the tasks no longer render to the requests that were run.
    """
    meta = json.loads(requests_parquet.with_suffix(".meta.json").read_bytes())
    requests = pl.read_parquet(requests_parquet)
    loaded = load_tasks(meta["names"], meta["seed"], meta["num_fewshot"], include_path)
    docs = pl.read_parquet(requests_parquet.with_suffix(".docs.parquet"))
    rendered = _by_document(requests, docs)
    replay = ReplayLM(model_dir, requests, {})
    summary: dict[str, Any] = {}
    views: dict[str, list[tuple[str, str]]] = {}
    for folder in run_folders:
        spec = CellSpec.from_json(json.loads((folder / "cell.json").read_bytes()))
        record = RunRecord.from_json(json.loads((folder / "run.json").read_bytes()))
        rows = score_run(loaded, replay, meta, rendered, folder, record)
        for row in rows:
            views.setdefault(row["task"], []).append((row["filter"], row["metric"]))
        name = _name_columns(spec)
        frame = pl.DataFrame([{**name, **row} for row in rows], schema=ITEM_SCHEMA)
        items = folder / "items.parquet"
        part = items.with_name("items.parquet.part")
        frame.sort("task", "doc_id", "filter", "metric").write_parquet(part)
        part.replace(items)
        summary[str(folder)] = {"rows": frame.height, "sha256": file_sha256(items)}
    # lm-eval keeps the order of a task's YAML; the first filter and metric are its primary ones.
    summary["views"] = {task: list(dict.fromkeys(found)) for task, found in views.items()}
    out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def score_run(
    loaded: dict[str, Any],
    replay: ReplayLM,
    meta: Mapping[str, Any],
    rendered: Mapping[tuple[str, int], Mapping[str, Any]],
    folder: Path,
    record: RunRecord,
) -> list[dict[str, Any]]:
    """Return the item rows of one run, without the columns that name the cell."""
    from lm_eval.evaluator import evaluate

    responses: dict[str, Response] = {}
    if record.outcome == "complete":
        responses = {r.request_id: r for r in read_responses(folder / "responses.jsonl")}
    replay.use(responses)
    results = evaluate(
        lm=replay,
        task_dict=loaded,
        limit=meta["limit"],
        bootstrap_iters=0,
        log_samples=True,
        apply_chat_template=meta["chat_template"],
        fewshot_as_multiturn=meta["chat_template"],
    )
    rows = []
    for task, samples in results["samples"].items():
        for sample in samples:
            where = f"task {task!r}, doc {sample['doc_id']}"
            document = rendered.get((task, sample["doc_id"]))
            if document is None:
                raise UserError(f"{where}: was not rendered; render the requests again")
            for key in ("doc_hash", "prompt_hash"):
                if sample[key] != document[key]:
                    raise UserError(
                        f"{where}: {key} {sample[key]} now, {document[key]} when rendered; "
                        "the task has changed, render the requests again"
                    )
            unmeasured = replay.unmeasured.get((task, sample["doc_id"]))
            if record.outcome != "complete":
                unmeasured = ("missing", f"{record.outcome}: {record.reason}")
            rows += item_rows(task, sample, document, responses, unmeasured)
    return rows


def item_rows(
    task: str,
    sample: Mapping[str, Any],
    document: Mapping[str, Any],
    responses: Mapping[str, Response],
    unmeasured: tuple[str, str] | None,
) -> list[dict[str, Any]]:
    """Return one row a metric for one (document, filter) of lm-eval's samples.

    A metric that is no number per item (a pair, a list) is left out. A NaN value, or a choice
    whose log-likelihood is not finite, is an error and never correct.
    """
    answers = [responses.get(request_id) for request_id in document["request_ids"]]
    choices = document["choices"] or []
    base = {
        "task": task,
        "doc_id": sample["doc_id"],
        "filter": sample["filter"],
        "target": str(sample["target"]),
        "doc_hash": sample["doc_hash"],
        "prompt_hash": sample["prompt_hash"],
        "request_ids": document["request_ids"],
    }
    rows = []
    for metric in sample["metrics"]:
        value = sample[metric]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            if not isinstance(value, bool) and not hasattr(value, "item"):
                continue
            value = float(value)
        row = {**base, "metric": metric}
        if unmeasured is not None:
            row |= {"status": unmeasured[0], "reason": unmeasured[1], "is_tie": False}
        elif not math.isfinite(value) or not _all_finite(sample):
            row |= {"status": "error", "reason": "non-finite score", "is_tie": False}
        else:
            row |= {"status": "ok", "value": float(value)}
            ranked = len(choices) > 1
            kind = document["kind"]
            row |= _ranked(metric, choices, sample) if ranked else _written(kind, sample, answers)
        rows.append(row)
    return rows


def _all_finite(sample: Mapping[str, Any]) -> bool:
    """Whether every log-likelihood that lm-eval saw is a finite number."""
    return all(
        math.isfinite(response[0])
        for response in sample["filtered_resps"]
        if isinstance(response, (tuple, list)) and response and isinstance(response[0], float)
    )


def _ranked(metric: str, choices: Sequence[str], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Answer of a multiple-choice item under a metric: the first best choice, as in lm-eval."""
    lls = [float(response[0]) for response in sample["filtered_resps"]]
    scores = lls[: len(choices)]
    if metric == "acc_norm":
        scores = [ll / len(text) for ll, text in zip(scores, choices, strict=True)]
    elif metric == "acc_bytes":
        scores = [ll / len(text.encode()) for ll, text in zip(scores, choices, strict=True)]
    elif metric == "acc_mutual_info":
        scores = [ll - prior for ll, prior in zip(scores, lls[len(choices) :], strict=True)]
    ordered = sorted(scores, reverse=True)
    best = scores.index(ordered[0])
    return {
        "answer_tokens": digest(best),
        "answer_text": choices[best],
        "answer_extracted": str(best),
        "margin": ordered[0] - ordered[1],
        "is_tie": ordered[0] == ordered[1],
    }


def _written(
    kind: str, sample: Mapping[str, Any], answers: Sequence[Response | None]
) -> dict[str, Any]:
    """Answer of a generated (or singly scored) item; a backend without token ids goes by text."""
    first = answers[0]
    given = [answer for answer in answers if answer is not None]
    tokens: list[Any]
    if kind == "generate":
        tokens = [a.text if a.token_ids is None else a.token_ids for a in given]
    else:
        tokens = [a.is_greedy for a in given]
    extracted = sample["filtered_resps"]
    return {
        "answer_tokens": digest(tokens),
        "answer_text": storable("\n".join(a.text or "" for a in given)),
        "answer_extracted": storable(_text(extracted[0] if len(extracted) == 1 else extracted)),
        "finish_reason": first.finish_reason if first else None,
        "is_tie": False,
    }


def storable(text: str) -> str:
    """Spell lone surrogates as escapes: a model may write them, and no table stores them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=True)


def _by_document(
    requests: pl.DataFrame, docs: pl.DataFrame
) -> dict[tuple[str, int], dict[str, Any]]:
    grouped = (
        requests.sort("task", "doc_id", "request_index", "repeat", maintain_order=True)
        .group_by("task", "doc_id", maintain_order=True)
        .agg(
            pl.col("request_id").alias("request_ids"),
            pl.col("kind", "doc_hash", "prompt_hash").first(),
        )
        .join(docs.select("task", "doc_id", "choices"), on=("task", "doc_id"), how="left")
    )
    return {(row["task"], row["doc_id"]): row for row in grouped.iter_rows(named=True)}


def _name_columns(spec: CellSpec) -> dict[str, Any]:
    return {
        "cell": spec.cell,
        "model": spec.model,
        "device": spec.device,
        "backend": spec.backend,
        "precision": spec.precision,
        "seed": spec.seed,
        "replicate": spec.replicate,
    }
