"""Whether a device is in the mode that its entry declares; what it says is kept with the run."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sameweights.remote.facts import find_marks, summarize
from sameweights.remote.probe import RUN_PROBES, read_facts
from sameweights.remote.transport import Transport, TransportError


def require_mode(transport: Transport, out: Path) -> list[str]:
    """Refuse a device that is not in its declared mode; return marks on one that is doubtful.

    Facts, their summary and marks are kept in `device.json`. Raises TransportError naming each
    probe, what was declared, and what was found.
    """
    record = read_state(transport, {*RUN_PROBES, *transport.expect})
    text = json.dumps(record, indent=1, sort_keys=True) + "\n"
    (out / "device.json").write_text(text, encoding="utf-8")
    check_mode(transport, record)
    return list(record["marks"])


def read_state(transport: Transport, probes: Collection[str]) -> dict[str, Any]:
    """Ask a device; return its `facts`, their `summary`, and `marks` on what is doubtful."""
    facts = read_facts(transport, probes)
    summary = summarize(facts)
    return {"facts": facts, "summary": summary, "marks": find_marks(summary)}


def check_mode(transport: Transport, state: Mapping[str, Any]) -> None:
    """Raise TransportError unless the facts of a device show the mode that its entry declares."""
    facts = state["facts"]
    wrong = [
        f"probe {name!r} should show {pattern!r}, found {facts[name]['output'].strip()[:200]!r}"
        for name, pattern in transport.expect.items()
        if not re.search(pattern, str(facts[name]["output"]))
    ]
    if wrong:
        raise TransportError(f"device {transport.device!r}: not in its mode: {'; '.join(wrong)}")
