"""Capability rules: which cells hardware and software can run at all, as data.

`config/capabilities.yaml` is a list of rules. A rule applies to a cell when every key under
`when` has one of the listed values; the cell is possible when then every key under `require`
has one of its listed values. Keys are dotted: `device.accelerator`, `backend.adapter`,
`precision.recipe.weights`, `model.id`. A list on the cell's side matches by any member.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from sameweights.errors import UserError
from sameweights.registry import Closed, read_yaml, validate

Facts = Mapping[str, Any]
"""Nested mapping with the keys model, device, backend, precision: each an entry plus its id."""


class Rule(Closed):
    """One thing that a device or a backend cannot do, with the reason to print."""

    id: str
    when: dict[str, list[str]] = Field(min_length=1)
    require: dict[str, list[str]] = Field(min_length=1)
    reason: str


def read_rules(path: Path) -> list[Rule]:
    """Read the capability rules; raises UserError for a bad or doubled rule."""
    listed = read_yaml(path) or []
    if not isinstance(listed, list):
        raise UserError(f"{path}: a list of rules is needed, found {type(listed).__name__}")
    rules = [validate(item, Rule, f"{path}: rule {n}") for n, item in enumerate(listed, 1)]
    ids = [rule.id for rule in rules]
    for name in ids:
        if ids.count(name) > 1:
            raise UserError(f"{path}: rule id {name!r} stands twice")
    return rules


def exclusion_reason(rules: list[Rule], facts: Facts) -> str | None:
    """Return why a cell cannot run, or None when every rule that applies is met."""
    for rule in rules:
        if all(_has(facts, key, values) for key, values in rule.when.items()):
            for key, values in rule.require.items():
                if not _has(facts, key, values):
                    found = _look_up(facts, key)
                    return f"{rule.reason} (rule {rule.id}: {key} is {found!r}, needs {values})"
    return None


def missing_cpu_flags(wanted: list[str], cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Return the CPU flags of `wanted` that this host lacks (all of them where it cannot tell)."""
    if not wanted:
        return []
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return wanted
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            present = set(line.partition(":")[2].split())
            return [flag for flag in wanted if flag not in present]
    return wanted


def _look_up(facts: Facts, key: str) -> Any:
    value: Any = facts
    for step in key.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def _has(facts: Facts, key: str, values: list[str]) -> bool:
    found = _look_up(facts, key)
    members = found if isinstance(found, list) else [found]
    return any(str(member) in values for member in members)
