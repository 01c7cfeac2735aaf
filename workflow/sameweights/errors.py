"""Errors that a person can act on, and the "did you mean" that goes into them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something outside the code is wrong; the message names the file, key, found and allowed."""


def did_you_mean(found: str, allowed: Iterable[str]) -> str:
    """Format the nearest allowed name and the whole list, for the end of an error message."""
    names = sorted(map(str, allowed))
    near = difflib.get_close_matches(found, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    return f"{hint} allowed: {', '.join(names) or 'nothing (the registry is empty)'}"
