"""Every record that crosses a stage, declared once.

Standard library only and Python 3.10+: this file runs on devices and is the only module of
`runner` that the hub imports. Files are JSON Lines in UTF-8; NaN and Inf are never written.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

RUNNER_VERSION = "1"
"""Raised by hand when a change of the runner can change a number; part of every cell's identity."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer journal line is refused: device output is hostile."""

Kind = Literal["loglikelihood", "loglikelihood_rolling", "generate"]
Status = Literal["ok", "error", "timeout", "truncated"]
FinishReason = Literal["stop", "eos", "length"]
Outcome = Literal["complete", "stopped", "failed"]

KINDS: tuple[str, ...] = ("loglikelihood", "loglikelihood_rolling", "generate")
STATUSES: tuple[str, ...] = ("ok", "error", "timeout", "truncated")
FINISH_REASONS: tuple[str, ...] = ("stop", "eos", "length")
OUTCOMES: tuple[str, ...] = ("complete", "stopped", "failed")


class ContractError(ValueError):
    """A record breaks the contract; the message names the file, line, key, found and allowed."""


def canonical_json(value: Any) -> bytes:
    """Serialise to one canonical byte string: sorted keys, no spaces, UTF-8, no NaN or Inf.

    Raises ValueError for non-finite numbers. Same rules as RFC 8785 for the values used here
    (strings, integers, booleans, short decimal floats).
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    # Lone surrogates can stand in a model's text; they must hash, not crash.
    return text.encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hex digits."""
    with path.open("rb") as handle:
        sha = hashlib.sha256()
        while block := handle.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


@dataclass(frozen=True)
class Request:
    """One unit of work for a runner, on token ids only.

    `prompt_ids` is the context, already cut to the model's window by the hub. `continuation_ids`
    is scored for the log-likelihood kinds and empty for `generate`. `until`, `max_new_tokens`,
    `temperature` and `sampling_seed` are for `generate` only. `repeat` tells apart the draws of
    a task that samples one prompt several times.
    """

    kind: Kind
    prompt_ids: list[int]
    continuation_ids: list[int] = field(default_factory=list)
    until: list[str] = field(default_factory=list)
    max_new_tokens: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    sampling_seed: int = 0
    repeat: int = 0

    @property
    def request_id(self) -> str:
        """SHA-256 of the canonical request: equal work has an equal id in every run."""
        return digest(asdict(self))

    def to_json(self) -> dict[str, Any]:
        return {"request_id": self.request_id, **asdict(self)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Request:
        """Read and check a request; raises ContractError when its id does not match its content."""
        names = {f.name for f in fields(cls)}
        unknown = set(record) - names - {"request_id"}
        if unknown:
            raise ContractError(f"request: unknown keys {sorted(unknown)}; allowed {sorted(names)}")
        request = cls(**{k: record[k] for k in names if k in record})
        if request.kind not in KINDS:
            raise ContractError(f"request: kind {request.kind!r}; allowed {list(KINDS)}")
        if record.get("request_id") not in (None, request.request_id):
            raise ContractError(
                f"request {record['request_id']!r}: its content hashes to {request.request_id}"
            )
        return request


@dataclass(frozen=True)
class Response:
    """One line of responses.jsonl.

    Evidence lists have one entry per scored (log-likelihood) or generated token:
    `token_logprobs` natural-log probability of the chosen token (log-softmax in fp32);
    `margins` top-1 minus top-2 log-probability at that position, nats;
    `top_ids`/`top_logprobs` the best few candidates there, shape [T, k], k >= 2.
    A backend that cannot give one of them leaves it None and says so in `describe()`.
    `logits_sha256` is SHA-256 over the float32 little-endian logits rows [T, vocab] in order.
    Anything but status `ok` has null results and an `error` text, and is never scored.
    """

    request_id: str
    status: Status
    loglikelihood: float | None = None
    is_greedy: bool | None = None
    token_ids: list[int] | None = None
    text: str | None = None
    finish_reason: FinishReason | None = None
    token_logprobs: list[float] | None = None
    margins: list[float] | None = None
    top_ids: list[list[int]] | None = None
    top_logprobs: list[list[float]] | None = None
    logits_sha256: str | None = None
    error: str | None = None
    elapsed_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check_response(record: Mapping[str, Any], where: str) -> Response:
    """Validate one response read from a device; raises ContractError that starts with `where`."""
    names = {f.name for f in fields(Response)}
    unknown = set(record) - names
    if unknown:
        raise ContractError(f"{where}: unknown keys {sorted(unknown)}; allowed {sorted(names)}")
    for key in ("request_id", "status"):
        if not isinstance(record.get(key), str):
            raise ContractError(f"{where}: key {key!r} is {record.get(key)!r}; a string is needed")
    if record["status"] not in STATUSES:
        raise ContractError(
            f"{where}: key 'status' is {record['status']!r}; allowed {list(STATUSES)}"
        )
    for key in ("loglikelihood", "elapsed_s"):
        value = record.get(key)
        if value is not None and not _is_finite(value):
            raise ContractError(f"{where}: key {key!r} is {value!r}; a finite number is needed")
    for key in ("token_logprobs", "margins"):
        value = record.get(key)
        if value is not None and not (isinstance(value, list) and all(map(_is_finite, value))):
            raise ContractError(f"{where}: key {key!r} must be a list of finite numbers")
    ids = record.get("token_ids")
    if ids is not None and not (isinstance(ids, list) and all(type(i) is int for i in ids)):
        raise ContractError(f"{where}: key 'token_ids' must be a list of integers")
    _check_candidates(record, where)
    if record.get("finish_reason") not in (None, *FINISH_REASONS):
        raise ContractError(
            f"{where}: key 'finish_reason' is {record['finish_reason']!r}; "
            f"allowed {list(FINISH_REASONS)}"
        )
    for key, kind in (("text", str), ("error", str), ("logits_sha256", str), ("is_greedy", bool)):
        if record.get(key) is not None and not isinstance(record[key], kind):
            raise ContractError(f"{where}: key {key!r} must be {kind.__name__} or null")
    response = Response(**record)
    results = (response.loglikelihood, response.token_ids, response.text)
    if response.status == "ok" and all(result is None for result in results):
        raise ContractError(f"{where}: status 'ok' without a loglikelihood, token_ids or text")
    if response.status != "ok" and not response.error:
        raise ContractError(f"{where}: status {response.status!r} without an 'error' text")
    return response


def _check_candidates(record: Mapping[str, Any], where: str) -> None:
    for key, good in (("top_ids", lambda v: type(v) is int), ("top_logprobs", _is_finite)):
        rows = record.get(key)
        if rows is None:
            continue
        if not (
            isinstance(rows, list)
            and all(isinstance(row, list) and all(map(good, row)) for row in rows)
        ):
            raise ContractError(f"{where}: key {key!r} must be a list of lists of numbers")


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class CellSpec:
    """cell.json: all that can change a cell's numbers, and nothing else.

    `options` are the backend's options (batch_size, attention, padding_side, scoring, ...),
    `env` the device's environment variables (set before the backend is imported),
    `recipe` the precision's recipe, `files` relative path -> SHA-256 of the model folder.
    `requirements_sha256` is the lock file of the backend's own environment, where it has one.
    `canary` is {"requests": [Request...], "token_logprobs": [[float...]...], "tolerance_nats": x}
    or null; tolerance is on the mean absolute difference per token.
    """

    cell: str
    model: str
    device: str
    backend: str
    precision: str
    seed: int
    replicate: int
    adapter: str
    options: dict[str, Any]
    recipe: dict[str, Any]
    env: dict[str, str]
    threads: int
    files: dict[str, str]
    requests_sha256: str
    request_timeout_s: float | None = None
    canary: dict[str, Any] | None = None
    runner_version: str = RUNNER_VERSION
    requirements_sha256: str | None = None

    @property
    def identity(self) -> str:
        """Hash of everything that can change the cell's numbers (the replicate included)."""
        return digest(self._content())

    def to_json(self) -> dict[str, Any]:
        return {"identity": self.identity, **self._content()}

    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        # Absent rather than null: a cell in the device's own environment keeps its identity.
        if self.requirements_sha256 is None:
            del content["requirements_sha256"]
        return content

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CellSpec:
        names = {f.name for f in fields(cls)}
        unknown = set(record) - names - {"identity"}
        if unknown:
            raise ContractError(
                f"cell.json: unknown keys {sorted(unknown)}; allowed {sorted(names)}"
            )
        missing = {n for n in names if n not in record} - {
            "request_timeout_s",
            "canary",
            "runner_version",
            "requirements_sha256",
        }
        if missing:
            raise ContractError(f"cell.json: missing keys {sorted(missing)}")
        spec = cls(**{k: record[k] for k in names if k in record})
        if record.get("identity") not in (None, spec.identity):
            raise ContractError(
                f"cell.json: key 'identity' is {record['identity']!r}, content is {spec.identity}"
            )
        return spec


@dataclass(frozen=True)
class RunRecord:
    """run.json, written last and atomically: its presence means that the run has ended.

    `outcome` complete: every request has a response; stopped: the canary or another check
    refused the cell, nothing was scored; failed: the device or the runner broke.
    `counts` is status -> number of responses; `environment` what the runner found (versions,
    capability, CPU, loaded model, evidence the backend gives); `timing` seconds by phase
    (load_s, canary_s, run_s) and tokens processed.
    """

    cell: str
    identity: str
    outcome: Outcome
    reason: str | None
    counts: dict[str, int]
    responses_sha256: str | None
    canary: dict[str, Any] | None
    environment: dict[str, Any]
    timing: dict[str, float]
    started_utc: str
    ended_utc: str
    runner_version: str = RUNNER_VERSION

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any], where: str = "run.json") -> RunRecord:
        names = {f.name for f in fields(cls)}
        if set(record) != names:
            odd = sorted(set(record) ^ names)
            raise ContractError(f"{where}: keys missing or unknown: {odd}")
        if record["outcome"] not in OUTCOMES:
            raise ContractError(
                f"{where}: key 'outcome' is {record['outcome']!r}; allowed {list(OUTCOMES)}"
            )
        return cls(**record)


def write_jsonl(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as JSON Lines through a temporary name; raises ValueError on NaN or Inf."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as handle:
        for record in records:
            handle.write(canonical_json(record) + b"\n")
    part.replace(path)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines; a broken, over-long or cut line raises ContractError with its number."""
    records: list[dict[str, Any]] = []
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            where = f"{path}: line {number}"
            if len(line) > MAX_LINE_BYTES:
                raise ContractError(f"{where}: longer than {MAX_LINE_BYTES} bytes")
            if not line.endswith(b"\n"):
                raise ContractError(f"{where}: cut off (no newline at its end)")
            try:
                value = json.loads(line.decode("utf-8", "surrogatepass"), parse_constant=_reject)
            except ValueError as error:
                raise ContractError(f"{where}: not JSON: {error}") from error
            if not isinstance(value, dict):
                raise ContractError(
                    f"{where}: a JSON object is needed, found {type(value).__name__}"
                )
            records.append(value)
    return records


def read_responses(path: Path) -> list[Response]:
    """Read and validate responses.jsonl; a doubled request id raises ContractError."""
    responses: list[Response] = []
    seen: set[str] = set()
    for number, record in enumerate(read_jsonl(path), start=1):
        response = check_response(record, f"{path}: line {number}")
        if response.request_id in seen:
            raise ContractError(f"{path}: line {number}: request {response.request_id} twice")
        seen.add(response.request_id)
        responses.append(response)
    return responses


def _reject(token: str) -> float:
    raise ValueError(f"{token} is not allowed")
