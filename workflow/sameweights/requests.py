"""Render once: lm-eval's requests as token ids, the same for every device.

Token ids, truncation and stop strings follow stock lm-eval's `hf` model, because equality with
it on one machine is the check on which everything else rests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from runner.contract import Request, file_sha256, write_jsonl
from sameweights.errors import UserError
from sameweights.tasks import load_tasks
from sameweights.tokenizer import MAX_GEN_TOKS, HubTokenizer

GENERATION_KEYS = {"until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k"}

REQUEST_SCHEMA: dict[str, Any] = {
    "task": pl.String,
    "doc_id": pl.Int64,
    "request_index": pl.Int64,
    "repeat": pl.Int64,
    "request_id": pl.String,
    "kind": pl.String,
    "prompt_ids": pl.List(pl.Int32),
    "continuation_ids": pl.List(pl.Int32),
    "until": pl.List(pl.String),
    "max_new_tokens": pl.Int32,
    "temperature": pl.Float64,
    "sampling_seed": pl.Int64,
    "prompt_truncated": pl.Boolean,
    "doc_hash": pl.String,
    "prompt_hash": pl.String,
}
DOC_SCHEMA: dict[str, Any] = {
    "task": pl.String,
    "doc_id": pl.Int64,
    "prompt": pl.String,
    "target": pl.String,
    "choices": pl.List(pl.String),
}


@dataclass(frozen=True)
class Rendered:
    """One request with its place in its task; `truncated` when the prompt was cut on the left."""

    request: Request
    task: str
    doc_id: int
    request_index: int
    truncated: bool
    doc_hash: str
    prompt_hash: str


def render_requests(
    model_dir: Path,
    names: Sequence[str],
    seed: int,
    limit: int | None,
    num_fewshot: int | None,
    chat_template: bool,
    include_path: Path | None,
    requests_parquet: Path,
) -> None:
    """Write requests (Parquet and JSON Lines), docs and meta beside `requests_parquet`.

    Raises UserError for an unknown task, one without documents, or generation settings that no
    runner understands.
    """
    loaded = load_tasks(names, seed, num_fewshot, include_path)
    tokenizer = HubTokenizer(model_dir)
    rendered: list[Rendered] = []
    docs: list[dict[str, Any]] = []
    tasks: dict[str, Any] = {}
    for name, task in loaded["tasks"].items():
        build_instances(task, tokenizer, limit, chat_template)
        if not task.instances:
            raise UserError(f"config: tasks: {name!r} has no documents")
        rendered += [r for i in task.instances for r in render_instance(i, tokenizer, seed)]
        docs += describe_docs(name, task)
        tasks[name] = {
            "n_docs": len({i.doc_id for i in task.instances}),
            "output_type": str(task.OUTPUT_TYPE),
            "version": str(task.VERSION),
            "num_fewshot": task.get_config("num_fewshot"),
        }
    requests_parquet.parent.mkdir(parents=True, exist_ok=True)
    jsonl = requests_parquet.with_suffix(".jsonl")
    unique = {r.request.request_id: r.request for r in rendered}
    write_jsonl(jsonl, (request.to_json() for request in unique.values()))
    pl.DataFrame([_row(r) for r in rendered], schema=REQUEST_SCHEMA).write_parquet(requests_parquet)
    pl.DataFrame(docs, schema=DOC_SCHEMA).write_parquet(
        requests_parquet.with_suffix(".docs.parquet")
    )
    meta = {
        "names": list(names),
        "seed": seed,
        "limit": limit,
        "num_fewshot": num_fewshot,
        "chat_template": chat_template,
        "tasks": tasks,
        "requests_sha256": file_sha256(jsonl),
    }
    meta_path = requests_parquet.with_suffix(".meta.json")
    meta_path.write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def build_instances(
    task: Any, tokenizer: HubTokenizer, limit: int | None, chat_template: bool
) -> None:
    """Let lm-eval build a task's instances as its `evaluate` does."""
    from lm_eval.evaluator_utils import get_sample_size

    task.build_all_requests(
        limit=get_sample_size(task, limit),
        rank=0,
        world_size=1,
        apply_chat_template=chat_template,
        fewshot_as_multiturn=chat_template,  # the default of lm-eval's own entry points
        chat_template=tokenizer.apply_chat_template if chat_template else None,
        tokenizer_name=tokenizer.tokenizer_name if chat_template else "",
    )


def render_instance(instance: Any, tokenizer: HubTokenizer, seed: int) -> Iterator[Rendered]:
    """Turn one lm-eval instance into its requests, one a repeat."""
    from lm_eval.utils import handle_non_serializable, hash_string

    doc = json.dumps(instance.doc, indent=2, default=handle_non_serializable, ensure_ascii=False)
    for repeat in range(instance.repeats or 1):
        request, truncated = _to_request(instance, tokenizer, seed, repeat)
        yield Rendered(
            request,
            instance.task_name,
            instance.doc_id,
            instance.idx,
            truncated,
            hash_string(doc),
            hash_string(instance.arguments[0]),
        )


def _to_request(
    instance: Any, tokenizer: HubTokenizer, seed: int, repeat: int
) -> tuple[Request, bool]:
    if instance.request_type == "loglikelihood":
        prompt, scored = tokenizer.encode_pair(*instance.args)
        # hf feeds all but the last of the last window + 1 tokens.
        room = tokenizer.window + 1 - len(scored)
        return Request("loglikelihood", prompt[-room:], scored), len(prompt) > room
    if instance.request_type == "loglikelihood_rolling":
        ids = tokenizer.tok_encode(instance.args[0])
        return Request("loglikelihood_rolling", [tokenizer.prefix_token_id], ids), False
    if instance.request_type == "generate_until":
        return _generation(instance, tokenizer, seed, repeat)
    raise UserError(
        f"task {instance.task_name!r}: request type {instance.request_type!r} is unknown"
    )


def _generation(
    instance: Any, tokenizer: HubTokenizer, seed: int, repeat: int
) -> tuple[Request, bool]:
    from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs

    context, settings = instance.args
    unknown = sorted(set(settings) - GENERATION_KEYS)
    if unknown:
        raise UserError(
            f"task {instance.task_name!r}: generation_kwargs {unknown} are not supported; "
            f"allowed: {sorted(GENERATION_KEYS)}"
        )
    kwargs: dict[str, Any] = dict(normalize_gen_kwargs(settings, MAX_GEN_TOKS))
    eos = tokenizer.tokenizer.decode(tokenizer.eot_token_id, skip_special_tokens=False)
    until = handle_stop_sequences(kwargs["until"], eos=eos)
    room = tokenizer.window - kwargs["max_gen_toks"]
    if room < 1:
        raise UserError(
            f"task {instance.task_name!r}: max_gen_toks {kwargs['max_gen_toks']} does not fit the "
            f"model's window of {tokenizer.window} tokens"
        )
    ids = tokenizer.tok_encode(context)
    sampled = bool(kwargs.get("do_sample")) and kwargs["temperature"] > 0
    request = Request(
        "generate",
        ids[-room:],
        until=[str(stop) for stop in until],
        max_new_tokens=kwargs["max_gen_toks"],
        temperature=float(kwargs["temperature"]) if sampled else 0.0,
        top_p=float(kwargs.get("top_p") or 1.0) if sampled else 1.0,
        top_k=int(kwargs.get("top_k") or 0) if sampled else 0,
        sampling_seed=seed if sampled else 0,
        repeat=repeat if sampled else 0,
    )
    return request, len(ids) > room


def describe_docs(name: str, task: Any) -> list[dict[str, Any]]:
    """Return prompt, target and choices of every document, for readers."""
    by_doc: dict[int, list[Any]] = {}
    for instance in task.instances:
        by_doc.setdefault(instance.doc_id, []).append(instance)
    rows = []
    for doc_id, instances in by_doc.items():
        first = min(instances, key=lambda i: i.idx)
        ranked = task.OUTPUT_TYPE == "multiple_choice"
        rows.append(
            {
                "task": name,
                "doc_id": doc_id,
                "prompt": str(first.args[0]),
                "target": str(task.doc_to_target(first.doc)),
                "choices": [str(c) for c in task.doc_to_choice(first.doc)] if ranked else None,
            }
        )
    return rows


def _row(rendered: Rendered) -> dict[str, Any]:
    request = rendered.request
    return {
        "task": rendered.task,
        "doc_id": rendered.doc_id,
        "request_index": rendered.request_index,
        "repeat": request.repeat,
        "request_id": request.request_id,
        "kind": request.kind,
        "prompt_ids": request.prompt_ids,
        "continuation_ids": request.continuation_ids,
        "until": request.until,
        "max_new_tokens": request.max_new_tokens,
        "temperature": request.temperature,
        "sampling_seed": request.sampling_seed,
        "prompt_truncated": rendered.truncated,
        "doc_hash": rendered.doc_hash,
        "prompt_hash": rendered.prompt_hash,
    }
