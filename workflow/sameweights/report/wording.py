"""How numbers and cells are spelled, the same on the page, in Markdown and in the terminal."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

NONE = "–"


def short(cell: str) -> str:
    """device/backend/precision of a cell id."""
    parts = cell.split("/")
    return "/".join(parts[1:4] if len(parts) > 3 else parts)


def points(value: float | None) -> str:
    """A difference of shares in points with its sign."""
    if value is None:
        return NONE
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def percent(value: float | None) -> str:
    """A share in percent."""
    return NONE if value is None else f"{100 * value:.1f}%"


def plain(value: float | None) -> str:
    """A number with two decimals."""
    return NONE if value is None else f"{value:.2f}"


def nats(value: float | None) -> str:
    """A divergence, which may be far below one: three digits."""
    return NONE if value is None else f"{value:.3g}"


def count_of(value: float) -> str:
    """A number of items; a mean over replicates may be fractional."""
    return f"{round(value, 2):g}"


def markdown(text: str) -> Markup:
    """Text inside Markdown: shown as it is, never as tag, link, mention, table border or line end.

    A zero-width space keeps names, issues and addresses from becoming links.
    """
    flat = html.escape(" ".join(text.split()), quote=False)
    entities = {ord(mark): f"&#{ord(mark)};" for mark in "|`*[]~\\"}
    links = {"@": "@\u200b", "#": "#\u200b", "://": ":\u200b//", "www.": "www\u200b."}
    for found, broken in links.items():
        flat = flat.replace(found, broken)
    return Markup(flat.translate(entities))  # noqa: S704


def p_value(value: float | None) -> str:
    """A p value with three decimals."""
    if value is None:
        return NONE
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def bracket(row: Mapping[str, Any], spell: Callable[[float | None], str]) -> str:
    """The interval of a comparison row, with its space, or nothing."""
    return "" if row["lo"] is None else f" [{spell(row['lo'])}, {spell(row['hi'])}]"
