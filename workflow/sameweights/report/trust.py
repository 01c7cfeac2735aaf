"""Trust: what really ran, and how the two cells' environments differ."""

from __future__ import annotations

import json
from typing import Any

from sameweights.report.tables import Row

MAX_FACT = 300
"""Characters of one recorded fact on the page."""


def list_differences(runs: list[Row], reference: str, target: str) -> list[tuple[str, str, str]]:
    """Return (fact, reference's value, target's value) of all recorded facts that differ."""
    left, right = (_facts(runs, cell) for cell in (reference, target))
    keys = sorted(set(left) | set(right))
    found = [(key, left.get(key, "–"), right.get(key, "–")) for key in keys]
    return [entry for entry in found if entry[1] != entry[2]]


def _facts(runs: list[Row], cell: str) -> dict[str, str]:
    run = next((r for r in runs if r["cell"] == cell and r["options"]), None)
    if run is None:
        return {}
    facts = {"identity": run["identity"], **json.loads(run["options"])}
    return _flatten({**facts, "environment": json.loads(run["environment"])})


def _flatten(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        flat: dict[str, str] = {}
        for key, inner in value.items():
            flat |= _flatten(inner, f"{prefix}.{key}" if prefix else str(key))
        return flat
    text = str(value)
    return {prefix: text if len(text) <= MAX_FACT else f"{text[:MAX_FACT]}…"}


def describe_runs(runs: list[Row]) -> list[Row]:
    """One row a run: what a reader needs to trust or repeat it."""
    return [_describe(run) for run in runs]


def _describe(run: Row) -> Row:
    shown = {key: run[key] for key in ("cell", "replicate", "outcome", "identity", "started_utc")}
    if not run["options"]:
        return {**shown, "options": None}
    options, environment = json.loads(run["options"]), json.loads(run["environment"])
    host = environment.get("host") or {}
    return {
        **shown,
        "options": options["options"],
        "threads": options["threads"],
        "runner": options["runner_version"],
        "requests": options.get("requests_sha256"),
        "files": options.get("files_sha256"),
        "cpu": host.get("cpu") or host.get("machine"),
        "packages": {
            name: version
            for name, version in (host.get("packages") or {}).items()
            if name in ("torch", "transformers", "torchao", "lm-eval")
        },
        "canary": json.loads(run["canary"]) if run["canary"] else None,
        "run_s": (json.loads(run["timing"]) if run["timing"] else {}).get("run_s"),
        "counts": json.loads(run["counts"]),
    }
