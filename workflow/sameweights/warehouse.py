"""The warehouse: every table of a results folder in one DuckDB file, rebuilt from Parquet.

Only runs that matrix.json plans are loaded, so a run that was taken out of the matrix leaves no
ghost rows. Schemas are explicit: nothing is inferred from device output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from runner.contract import RunRecord, digest, read_responses
from sameweights.errors import UserError
from sameweights.paired import define_views
from sameweights.requests import DOC_SCHEMA, REQUEST_SCHEMA
from sameweights.score import ITEM_SCHEMA, storable

CELL_SCHEMA: dict[str, Any] = {
    "cell": pl.String,
    "model": pl.String,
    "device": pl.String,
    "backend": pl.String,
    "precision": pl.String,
    "seed": pl.Int64,
    "state": pl.String,
    "reason": pl.String,
}
RUN_SCHEMA: dict[str, Any] = {
    "cell": pl.String,
    "replicate": pl.Int64,
    "outcome": pl.String,
    "reason": pl.String,
    "identity": pl.String,
    "counts": pl.String,
    "environment": pl.String,
    "timing": pl.String,
    "canary": pl.String,
    "options": pl.String,
    "started_utc": pl.String,
    "ended_utc": pl.String,
}
RESPONSE_SCHEMA: dict[str, Any] = {
    "cell": pl.String,
    "replicate": pl.Int64,
    "request_id": pl.String,
    "status": pl.String,
    "loglikelihood": pl.Float64,
    "is_greedy": pl.Boolean,
    "token_ids": pl.List(pl.Int64),
    "text": pl.String,
    "finish_reason": pl.String,
    "token_logprobs": pl.List(pl.Float32),
    "margins": pl.List(pl.Float32),
    "top_ids": pl.List(pl.List(pl.Int64)),
    "top_logprobs": pl.List(pl.List(pl.Float32)),
    "logits_sha256": pl.String,
    "error": pl.String,
    "elapsed_s": pl.Float64,
}
EVIDENCE_SCHEMA: dict[str, Any] = {
    "cell": pl.String,
    "replicate": pl.Int64,
    "task": pl.String,
    "doc_id": pl.Int64,
    "logits_sha256": pl.String,
    "token_ids": pl.List(pl.Int64),
    "margins": pl.List(pl.Float32),
}
"""Evidence by item: a hash over all its logits (null where one is unknown), its first answer."""


def build_warehouse(results: Path, out: Path) -> None:
    """Rebuild the warehouse of a results folder at `out`; raises UserError naming a broken file.

    Tables: meta, cells (planned and excluded), runs, measured (runs with a scored item), items,
    primary_metrics, evidence, docs, requests, responses, vocabulary. Views: see paired.py.
    """
    matrix = json.loads((results / "matrix.json").read_bytes())
    part = out.with_name(out.name + ".part")
    part.unlink(missing_ok=True)
    with duckdb.connect(str(part)) as db:
        for name, frame in _tables(results, matrix):
            db.register("frame", frame)
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")  # noqa: S608
            db.unregister("frame")
        define_views(db)
        db.execute("CHECKPOINT")
    part.replace(out)


def _tables(results: Path, matrix: dict[str, Any]) -> Iterator[tuple[str, pl.DataFrame]]:
    meta = {key: json.dumps(value) for key, value in matrix.items() if key != "cells"}
    yield "meta", pl.DataFrame({"key": list(meta), "value": list(meta.values())})
    cells = [{key: cell[key] for key in CELL_SCHEMA} for cell in matrix["cells"]]
    yield "cells", pl.DataFrame(cells, schema=CELL_SCHEMA)
    folders = [
        (cell["cell"], replicate, results / cell["path"] / f"r{replicate}")
        for cell in matrix["cells"]
        if cell["state"] == "planned"
        for replicate in cell["replicates"]
    ]
    yield "runs", pl.DataFrame([_run(*folder) for folder in folders], schema=RUN_SCHEMA)
    items = [_read_items(*folder) for folder in folders]
    order = ["task", "doc_id", "filter", "metric", "cell", "replicate"]
    stacked = _stack(items, ITEM_SCHEMA).sort(order)
    yield "items", stacked
    measured = stacked.filter(status="ok").select("cell", "replicate").unique()
    yield "measured", measured.sort("cell", "replicate")
    yield "primary_metrics", choose_primary(stacked, results, matrix)
    responses = [_responses(*folder) for folder in folders]
    evidence = [_evidence(*pair) for pair in zip(items, responses, strict=True)]
    yield "evidence", _stack(evidence, EVIDENCE_SCHEMA).sort("task", "doc_id", "cell", "replicate")
    yield "responses", _stack(responses, RESPONSE_SCHEMA).sort("request_id", "cell", "replicate")
    yield "vocabulary", _vocabulary(results, matrix, responses)
    sets = sorted({(cell["model"], cell["seed"]) for cell in matrix["cells"]})
    yield "docs", _rendered(results, sets, ".docs.parquet", DOC_SCHEMA)
    requests = _rendered(results, sets, ".parquet", REQUEST_SCHEMA)
    yield (
        "requests",
        requests.with_columns(
            n_prompt_tokens=pl.col("prompt_ids").list.len(),
            n_continuation_tokens=pl.col("continuation_ids").list.len(),
        ).drop("prompt_ids"),
    )


def _run(cell: str, replicate: int, folder: Path) -> dict[str, Any]:
    """Return the row of one run; one that left no record has outcome `missing`."""
    path = folder / "run.json"
    name = {"cell": cell, "replicate": replicate}
    if not path.is_file():
        return {**name, "outcome": "missing", "reason": f"no {path.name}"}
    record = RunRecord.from_json(json.loads(path.read_bytes()), str(path))
    spec = json.loads((folder / "cell.json").read_bytes())
    for key, found in (("cell", cell), ("identity", spec["identity"])):
        if getattr(record, key) != found:
            raise UserError(f"{path}: key {key!r} is {getattr(record, key)!r}, expected {found!r}")
    row = {key: getattr(record, key) for key in ("outcome", "reason", "identity")}
    times = {key: getattr(record, key) for key in ("started_utc", "ended_utc")}
    nested = {
        key: json.dumps(getattr(record, key))
        for key in ("counts", "environment", "timing", "canary")
    }
    known = ("options", "recipe", "env", "threads", "runner_version", "requests_sha256")
    options = {key: spec[key] for key in known} | {"files_sha256": digest(spec["files"])}
    return {**name, **row, **nested, "options": json.dumps(options), **times}


def _responses(cell: str, replicate: int, folder: Path) -> pl.DataFrame:
    path = folder / "responses.jsonl"
    rows = [vars(response) for response in read_responses(path)] if path.is_file() else []
    texts = ("text", "error")
    name = {"cell": cell, "replicate": replicate}
    return pl.DataFrame(
        [{**name, **row, **{key: _storable(row[key]) for key in texts}} for row in rows],
        schema=RESPONSE_SCHEMA,
    )


def _storable(text: str | None) -> str | None:
    return text and storable(text)


def _read_items(cell: str, replicate: int, folder: Path) -> pl.DataFrame:
    path = folder / "items.parquet"
    if not path.is_file():
        return pl.DataFrame(schema=ITEM_SCHEMA)
    frame = pl.read_parquet(path)
    if dict(frame.schema) != ITEM_SCHEMA:
        raise UserError(f"{path}: its columns are {frame.schema}, expected {ITEM_SCHEMA}")
    foreign = frame.filter((pl.col("cell") != cell) | (pl.col("replicate") != replicate))
    if foreign.height:
        raise UserError(
            f"{path}: {foreign.height} rows of {foreign['cell'][0]}/r{foreign['replicate'][0]}; "
            f"only {cell}/r{replicate} is allowed here"
        )
    return frame


def choose_primary(items: pl.DataFrame, results: Path, matrix: dict[str, Any]) -> pl.DataFrame:
    """Return each task's primary filter and metric: configured, else the first of its YAML.

    Results scored before the order was recorded have the first by name.
    Raises UserError for a configured filter or metric that the task does not have.
    """
    written: dict[str, list[list[str]]] = {}
    for path in sorted(results.glob("scores/*/s*.json")):
        written |= json.loads(path.read_bytes()).get("views", {})
    wanted = matrix.get("primary", {})
    found = items.select("task", "filter", "metric").unique().sort("task", "filter", "metric")
    rows = []
    for (task,), own in found.partition_by("task", as_dict=True, maintain_order=True).items():
        known = [tuple(row) for row in own.select("filter", "metric").rows()]
        ordered = [v for view in written.get(str(task), []) if (v := tuple(view)) in known]
        choice = wanted.get(task, {})
        fits = [
            view
            for view in dict.fromkeys([*ordered, *known])
            if all(
                choice.get(k) in (None, v) for k, v in zip(("filter", "metric"), view, strict=True)
            )
        ]
        if not fits:
            raise UserError(f"config: primary: {task}: {choice} is none of {known}")
        rows.append((task, *fits[0]))
    schema = dict.fromkeys(("task", "filter", "metric"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _evidence(items: pl.DataFrame, responses: pl.DataFrame) -> pl.DataFrame:
    """Return one row an item of one run, its requests in their order."""
    keys = ["cell", "replicate", "task", "doc_id"]
    hashes = pl.col("logits_sha256")
    return (
        items.unique(["task", "doc_id"], maintain_order=True)
        .select(*keys, request_id="request_ids")
        .explode("request_id")
        .join(
            responses.drop("cell", "replicate"), on="request_id", how="left", maintain_order="left"
        )
        .group_by(keys, maintain_order=True)
        .agg(hashes, pl.col("token_ids", "margins").first())
        .with_columns(hashes.map_elements(_digest_all, return_dtype=pl.String))
        .select(EVIDENCE_SCHEMA.keys())
    )


def _digest_all(hashes: pl.Series) -> str | None:
    return None if hashes.has_nulls() else digest(hashes.to_list())


def _vocabulary(
    results: Path, matrix: dict[str, Any], responses: list[pl.DataFrame]
) -> pl.DataFrame:
    """Return the text of every token that an answer used or nearly used, for the report."""
    from tokenizers import Tokenizer

    stacked = _stack(responses, RESPONSE_SCHEMA)
    written = stacked.drop_nulls("token_ids")
    used = {*written["token_ids"].explode(), *written["top_ids"].explode().explode()} - {None}
    rows = []
    for model in sorted({cell["model"] for cell in matrix["cells"]}):
        path = results / "models" / model / "tokenizer.json"
        tokenizer = Tokenizer.from_file(str(path))
        rows += [
            {"model": model, "token_id": i, "text": tokenizer.decode([i], False)}
            for i in sorted(used)
        ]
    schema: dict[str, Any] = {"model": pl.String, "token_id": pl.Int64, "text": pl.String}
    return pl.DataFrame(rows, schema=schema)


def _rendered(
    results: Path, sets: list[tuple[str, int]], suffix: str, schema: dict[str, Any]
) -> pl.DataFrame:
    frames = [
        pl.read_parquet((results / "requests" / model / f"s{seed}.parquet").with_suffix(suffix))
        .select(list(schema))
        .with_columns(model=pl.lit(model), seed=pl.lit(seed, dtype=pl.Int64))
        for model, seed in sets
    ]
    return _stack(frames, {**schema, "model": pl.String, "seed": pl.Int64})


def _stack(frames: list[pl.DataFrame], schema: dict[str, Any]) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=schema), *frames], how="vertical")
