"""The attribution's JSON, read with its shape checked: a split that cannot be shown says why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sameweights.report.tables import Row

KEYS = ("reference", "target", "n_items", "n_excluded", "outcomes", "classes", "notes")
"""What the page shows of an attribution."""

OUTCOME_KEYS = (
    "outcome",
    "total",
    "headline",
    "fair_share",
    "order_sensitivity",
    "blocks",
    "noise",
    "next_cells",
    "identified",
)


def read_split(path: Path | None) -> Row | None:
    """Return the attribution, {"error": reason} where it cannot be shown, or None without a path.

    The reason names the file without its folder: the page is shared, folders are private.
    """
    if path is None:
        return None
    try:
        split = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {"error": f"there is no {path.name}"}
    except ValueError as error:
        return {"error": f"{path.name} is not JSON: {error}"}
    problem = _find_problem(split)
    return {"error": f"{path.name}: {problem}"} if problem else dict(split)


def _find_problem(split: Any) -> str:
    """Say what of the documented shape is missing; empty when all is there."""
    if not isinstance(split, dict):
        return f"an object is needed, found {type(split).__name__}"
    if "error" in split:
        return "" if isinstance(split["error"], str) else "key 'error' is no text"
    if missing := _missing(split, KEYS):
        return f"without {missing}"
    if not isinstance(split["outcomes"], dict):
        return f"key 'outcomes' is {type(split['outcomes']).__name__}; an object is needed"
    for name, outcome in split["outcomes"].items():
        if not isinstance(outcome, dict):
            return f"outcome {name!r} is {type(outcome).__name__}; an object is needed"
        if missing := _missing(outcome, OUTCOME_KEYS):
            return f"outcome {name!r} without {missing}"
    return ""


def _missing(record: Row, keys: Iterable[str]) -> str:
    return ", ".join(repr(key) for key in keys if key not in record)
