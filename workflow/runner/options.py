"""Options of a backend: declared once, checked before anything heavy is imported."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class OptionError(ValueError):
    """An option, recipe or adapter that does not exist or has no effect; says what is allowed."""


@dataclass(frozen=True)
class Option:
    """One option: the type of its value, its default, and the allowed values where finite."""

    kind: type
    default: Any
    allowed: tuple[Any, ...] = ()
    minimum: int | None = None


def suggest(name: str, allowed: Sequence[str]) -> str:
    """Return "did you mean ...?" for a close name, and the whole list of allowed ones."""
    close = difflib.get_close_matches(name, allowed, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}allowed: {', '.join(allowed)}"


def resolve_options(options: Mapping[str, Any], declared: Mapping[str, Option]) -> dict[str, Any]:
    """Fill defaults in and check every value; raises OptionError."""
    for name in options:
        if name not in declared:
            raise OptionError(f"cell.json: options: unknown key {name!r}; {_names(name, declared)}")
    resolved = {}
    for name, option in declared.items():
        value = options.get(name, option.default)
        if value is not option.default:
            _check(name, value, option)
        resolved[name] = value
    return resolved


def match_recipe(recipe: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the recipe if the backend can run it; raises OptionError that lists those it can."""
    wanted = {key: value for key, value in recipe.items() if value is not None}
    if wanted not in [dict(item) for item in known]:
        listing = "; ".join(str(dict(item)) for item in known)
        raise OptionError(f"cell.json: key 'recipe' is {dict(recipe)}; allowed: {listing}")
    return wanted


def _names(name: str, declared: Mapping[str, Option]) -> str:
    return suggest(name, sorted(declared))


def _check(name: str, value: Any, option: Option) -> None:
    where = f"cell.json: options: key {name!r} is {value!r}"
    if type(value) is not option.kind:
        raise OptionError(f"{where}; a value of type {option.kind.__name__} is needed")
    if option.allowed and value not in option.allowed:
        raise OptionError(f"{where}; {suggest(str(value), [str(a) for a in option.allowed])}")
    if option.minimum is not None and isinstance(value, int) and value < option.minimum:
        raise OptionError(f"{where}; at least {option.minimum} is needed")
