"""Plain lm-eval sample files (0.4.13) of runs that others made, read with every known trap.

Files are hostile: sizes are limited, nothing is skipped in silence, and each error names the file
and line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from runner.contract import MAX_LINE_BYTES
from sameweights.attribution.align import ItemRow, RunRows, build_tables
from sameweights.attribution.extraction import holds_answer
from sameweights.attribution.table import (
    DEFAULT_FACTORS,
    ItemKey,
    ItemTable,
    Run,
    TableError,
    parse_label,
)
from sameweights.errors import UserError

MAX_FILE_BYTES = 4 * 1024**3
MAX_ARRAY_BYTES = 512 * 1024**2
REQUIRED = ("doc_id", "filter", "metrics", "resps", "filtered_resps", "doc_hash", "prompt_hash")

_LM_EVAL_NAME = re.compile(r"^samples_(?P<task>.+)_\d{4}-\d{2}-\d{2}T[\d\-.:]+\.jsonl$")


class SampleError(UserError):
    """A sample file cannot be read; the message names the file, the line and what was found."""


def read_tables(
    labelled: Sequence[tuple[str, Path]],
    metric: str | None = None,
    filter_name: str | None = None,
    factors: Sequence[str] = DEFAULT_FACTORS,
    cluster_field: str | None = None,
) -> list[ItemTable]:
    """Aligned tables, one per filter, from (label, file or folder) pairs.

    A label is "device/backend/precision[#replicate]"; the same label twice adds files to one run.
    Documents with an equal `cluster_field` (a shared passage) vary together in the intervals.
    Raises SampleError for unreadable files and TableError for runs that are not comparable.
    """
    sources: dict[str, list[Path]] = {}
    for label, path in labelled:
        sources.setdefault(label, []).append(path)
    runs = []
    for label, paths in sources.items():
        levels, replicate = parse_label(label)
        if len(levels) != len(factors):
            raise TableError(f"label {label!r}: expected {'/'.join(factors)}[#replicate]")
        runs.append(read_run(Run(levels, replicate), paths, cluster_field))
    return build_tables(runs, factors, metric, filter_name)


def read_run(run: Run, paths: Sequence[Path], cluster_field: str | None = None) -> RunRows:
    """All sample files of one run; raises SampleError."""
    files = [file for path in paths for file in _expand(path)]
    rows: dict[ItemKey, ItemRow] = {}
    notes: dict[str, None] = {}
    for file in files:
        task = _task_of(file, alone=len(files) == 1)
        for line, record in iterate_records(file):
            row = parse_sample(record, task, f"{file}: line {line}", notes, cluster_field)
            if row.key in rows:
                raise SampleError(
                    f"{file}: line {line}: task {task!r} doc {row.doc_id} filter {row.filter!r} "
                    "appears twice"
                )
            rows[row.key] = row
    return RunRows(run, ", ".join(str(path) for path in paths), rows, tuple(notes))


def _expand(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise SampleError(f"{path}: no such file or folder")
    files = sorted(path.rglob("samples_*.jsonl"))
    if not files:
        raise SampleError(f"{path}: holds no samples_*.jsonl")
    return files


def _task_of(file: Path, alone: bool) -> str:
    match = _LM_EVAL_NAME.match(file.name)
    if match:
        return match["task"]
    return "samples" if alone else file.stem


def iterate_records(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line number, record) of a JSON Lines file, or of one JSON array (item number).

    Raises SampleError for a broken or truncated line, a line that is no object, and no rows.
    """
    size = file.stat().st_size
    if size > MAX_FILE_BYTES:
        raise SampleError(f"{file}: {size} bytes; at most {MAX_FILE_BYTES}")
    count = 0
    with file.open("rb") as handle:
        is_array = handle.read(4096).lstrip()[:1] == b"["
        handle.seek(0)
        if is_array and size > MAX_ARRAY_BYTES:
            raise SampleError(f"{file}: a JSON array of {size} bytes; write one object a line")
        for number, record in (
            _array_items(file, handle.read()) if is_array else _lines(file, handle)
        ):
            if not isinstance(record, dict):
                raise SampleError(
                    f"{file}: line {number}: expected an object, found {record!r:.40}"
                )
            count += 1
            yield number, record
    if count == 0:
        raise SampleError(f"{file}: no rows")


def _array_items(file: Path, raw: bytes) -> Iterator[tuple[int, Any]]:
    return iter(enumerate(_parse_line(raw, f"{file}: JSON array"), 1))


def _lines(file: Path, handle: BinaryIO) -> Iterator[tuple[int, Any]]:
    number = 0
    while line := handle.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise SampleError(f"{file}: line {number}: longer than {MAX_LINE_BYTES} bytes")
        if line.strip():  # a blank line holds nothing that could be lost
            yield number, _parse_line(line, f"{file}: line {number}")


def _parse_line(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SampleError(f"{where}: not complete JSON ({error}); is the file truncated?") from None


def parse_sample(
    record: Mapping[str, Any],
    task: str,
    where: str,
    notes: dict[str, None],
    cluster_field: str | None = None,
) -> ItemRow:
    """One sample as an item row. Adds to `notes` the metrics that are no number per item."""
    missing = [key for key in REQUIRED if key not in record]
    if missing:
        raise SampleError(f"{where}: keys {missing} are missing; needed {list(REQUIRED)}")
    doc_id = record["doc_id"]
    if not isinstance(doc_id, int) or isinstance(doc_id, bool):
        raise SampleError(f"{where}: doc_id {doc_id!r:.40} is no integer")
    metrics = _numeric_metrics(record, task, where, notes)
    scores = choice_scores(record)
    common: dict[str, Any] = {
        "task": task,
        "doc_id": doc_id,
        "filter": str(record["filter"]),
        "metrics": metrics,
        "doc_hash": str(record["doc_hash"]),
        "prompt_hash": str(record["prompt_hash"]),
        "cluster": None if cluster_field is None else _cluster(record, cluster_field, where),
    }
    if scores is not None:
        return ItemRow(**common, **_judge_choices(scores, record["filtered_resps"]))
    return ItemRow(**common, **_judge_text(record, metrics))


def _cluster(record: Mapping[str, Any], field: str, where: str) -> str:
    doc = record.get("doc")
    if not isinstance(doc, dict) or field not in doc:
        allowed = sorted(doc) if isinstance(doc, dict) else []
        raise SampleError(f"{where}: doc has no field {field!r}; allowed {allowed}")
    return json.dumps(doc[field], sort_keys=True)


def _numeric_metrics(
    record: Mapping[str, Any], task: str, where: str, notes: dict[str, None]
) -> dict[str, float]:
    names = record["metrics"]
    if not isinstance(names, list):
        raise SampleError(f"{where}: metrics {names!r:.40} is no list of names")
    metrics = {}
    for name in map(str, names):
        if name not in record:
            raise SampleError(f"{where}: metric {name!r} has no value")
        value = record[name]
        if isinstance(value, int | float):
            metrics[name] = _as_float(value, f"{where}: metric {name!r}")
        else:
            kind = type(value).__name__
            notes[f"task {task!r}: metric {name!r} is a {kind} per item, no number: left out"] = (
                None
            )
    return metrics


def _as_float(value: float, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise SampleError(f"{where}: the number is too large") from None


def ordered_arguments(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Requests of a sample in their numeric order: gen_args_10 comes after gen_args_9."""
    arguments = record.get("arguments", {})
    if isinstance(arguments, list):
        return arguments
    names = sorted(arguments, key=lambda name: int(re.sub(r"\D", "", name) or 0))
    return [arguments[name] for name in names]


def choice_scores(record: Mapping[str, Any]) -> dict[str, float] | None:
    """Log-likelihood (nats) of each choice in request order, or None for generated answers.

    Unconditional requests (empty context) of mutual-information tasks are no choices.
    """
    filtered = record["filtered_resps"]
    if not isinstance(filtered, list) or not filtered or not all(map(_is_loglikelihood, filtered)):
        return None
    requests = ordered_arguments(record)
    texts = [(str(r.get("arg_0", "")), str(r.get("arg_1", ""))) for r in requests]
    if len(texts) != len(filtered):
        texts = [("?", str(k)) for k in range(len(filtered))]
    conditional = [k for k, (context, _) in enumerate(texts) if context]
    kept = conditional or range(len(texts))
    # Choices can repeat their text, or share it over several contexts: the number keeps them apart.
    return {f"{k}:{texts[k][1]}": float(filtered[k][0]) for k in kept}


def _is_loglikelihood(response: Any) -> bool:
    if not isinstance(response, list) or len(response) != 2:
        return False
    if str(response[1]) not in ("True", "False"):
        return False
    try:
        float(response[0])
    except (TypeError, ValueError):
        return False
    return True


def _judge_choices(scores: Mapping[str, float], filtered: Sequence[Any]) -> dict[str, Any]:
    """Answer, tie and error of a multiple-choice item. The harness takes the first of a tie.

    A score that is not finite makes the item an error: an argmax over NaN is no answer.
    """
    broken = [name for name, score in scores.items() if not math.isfinite(score)]
    if broken:
        return {"answers": {}, "error": f"choice {broken[0]!r:.40} scored {scores[broken[0]]}"}
    if len(scores) == 1:  # one continuation: the answer is whether the model would say it
        return {"answers": dict.fromkeys(("extracted", "text"), str(filtered[0][1]))}
    best = max(scores.values())
    chosen = [name for name, score in scores.items() if score == best]
    return {"answers": dict.fromkeys(("extracted", "text"), chosen[0]), "tie": len(chosen) > 1}


def _judge_text(record: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, Any]:
    """Answers of a generated item, and whether only the filter lost the right one."""
    texts = [
        text
        for group in record["resps"]
        for text in (group if isinstance(group, list) else [group])
    ]
    answers = {
        "text": json.dumps(texts, ensure_ascii=False),
        "extracted": json.dumps(record["filtered_resps"], ensure_ascii=False),
    }
    wrong = bool(metrics) and max(metrics.values()) == 0
    target = str(record.get("target", ""))
    held = wrong and any(holds_answer(str(text), target) for text in texts)
    return {"answers": answers, "extraction_only": held}
