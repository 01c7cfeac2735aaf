"""Capability rules as plain data: which levels of one factor another level needs or excludes.

Only data decides what is feasible, never code from a config. A rule reads "when a cell has one of
these levels, it must (or must not) have one of those": `trtllm needs jetson`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sameweights.errors import UserError

Levels = Mapping[str, frozenset[str]]

_VERBS = r"needs?|requires?|only on|only with|excludes?"
_TEXT = re.compile(rf"^\s*(?P<when>.+?)\s+(?P<verb>{_VERBS})\s+(?P<then>.+?)\s*$")
_NEXT_RULE = re.compile(rf"[;\n]|(?:,|\band\b)(?=[^,;]*\s(?:{_VERBS})\s)")
_OR = re.compile(r"\s*\|\s*|\s+or\s+")


class RuleError(UserError):
    """A rule cannot be read, or names a level that no cell has."""


@dataclass(frozen=True)
class Rule:
    """When `factor` has one of `levels`, `other` must have one of `allowed` (or none of them).

    `excludes` turns "must have one of" into "must have none of".
    """

    factor: str
    levels: frozenset[str]
    other: str
    allowed: frozenset[str]
    excludes: bool = False

    def allows(self, cell: Mapping[str, str]) -> bool:
        """True when the cell {factor: level} does not break this rule."""
        if cell.get(self.factor) not in self.levels:
            return True
        return (cell.get(self.other) in self.allowed) != self.excludes

    def __str__(self) -> str:
        verb = "excludes" if self.excludes else "needs"
        return f"{'|'.join(sorted(self.levels))} {verb} {'|'.join(sorted(self.allowed))}"


@dataclass(frozen=True)
class ImpossibleCells:
    """Cells that cannot exist, by label (levels joined by "/"): what a registry worked out."""

    labels: frozenset[str]

    def allows(self, cell: Mapping[str, str]) -> bool:
        """True when the cell {factor: level}, in factor order, is not listed."""
        return "/".join(cell.values()) not in self.labels

    def __str__(self) -> str:
        return f"{len(self.labels)} cells listed as impossible"


Capability = Rule | ImpossibleCells


def feasible(cell: Mapping[str, str], rules: Iterable[Capability]) -> bool:
    """True when no rule forbids the cell {factor: level}."""
    return all(rule.allows(cell) for rule in rules)


def parse_rules(texts: Iterable[str], levels: Levels) -> tuple[Rule, ...]:
    """Read rules such as "trtllm needs jetson; int4 excludes cpu|mac", one or more a string.

    Rules are separated by ";" or a new line, or by "," or "and" before another whole rule.

    A side is `level`, `level|level`, `level or level`, or `factor=level|level`. `levels` maps each
    factor to its known levels and finds the factor of a bare level. Raises RuleError.
    """
    parts = [part for text in texts for part in _NEXT_RULE.split(text) if part.strip()]
    return tuple(_parse_rule(part, levels) for part in parts)


def _parse_rule(text: str, levels: Levels) -> Rule:
    match = _TEXT.match(text)
    if match is None:
        raise RuleError(
            f"rule {text.strip()!r}: expected 'LEVEL needs LEVEL' or '... excludes ...'"
        )
    factor, when = _parse_side(match["when"], levels, text)
    other, then = _parse_side(match["then"], levels, text)
    if factor == other:
        raise RuleError(f"rule {text.strip()!r}: both sides are levels of {factor!r}")
    return Rule(factor, when, other, then, excludes=match["verb"].startswith("exclude"))


def _parse_side(text: str, levels: Levels, rule: str) -> tuple[str, frozenset[str]]:
    name, equals, rest = text.partition("=")
    if equals:
        factor = name.strip()
        if factor not in levels:
            raise RuleError(f"rule {rule.strip()!r}: factor {factor!r}; known {sorted(levels)}")
        return factor, frozenset(_OR.split(rest.strip()))
    wanted = frozenset(_OR.split(text.strip()))
    # A level that no cell has is fine beside one that some cell has: it names the factor.
    homes = [factor for factor, known in levels.items() if wanted & known]
    if len(homes) == 1:
        return homes[0], wanted
    known_levels = {factor: sorted(known) for factor, known in levels.items()}
    problem = "in no factor" if not homes else f"in {homes}: write factor=level"
    raise RuleError(f"rule {rule.strip()!r}: {sorted(wanted)} is {problem}; known {known_levels}")


def rules_from_dicts(records: Iterable[Mapping[str, Mapping[str, Iterable[str]]]]) -> list[Rule]:
    """Rules from plain data: {"when": {factor: [levels]}, "needs" or "excludes": {factor: [...]}}.

    Several factors under "needs" or "excludes" give one rule each. Raises RuleError.
    """
    rules = []
    for record in records:
        verbs = set(record) - {"when"}
        if "when" not in record or len(record["when"]) != 1 or not verbs <= {"needs", "excludes"}:
            raise RuleError(f"rule {record!r}: needs 'when' with one factor and 'needs'/'excludes'")
        ((factor, when),) = record["when"].items()
        for verb in sorted(verbs):
            for other, allowed in record[verb].items():
                excluded = verb == "excludes"
                rules.append(Rule(factor, frozenset(when), other, frozenset(allowed), excluded))
    return rules
