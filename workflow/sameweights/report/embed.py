"""Data and scripts inside one HTML file: nothing in them can end their element or run unasked."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Script:
    """One inline script; `source` is what the content security policy allows by its hash."""

    text: str

    @property
    def source(self) -> str:
        sha = hashlib.sha256(self.text.encode()).digest()
        return f"'sha256-{base64.b64encode(sha).decode()}'"


def wrap_script(text: str) -> Script:
    """Make a script that can stand in HTML: no end tag, no comment start, own scope."""
    safe = text.replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")
    # The bundle declares one-letter names at its top level: in a page they would clash.
    return Script(f"(() => {{\n{safe}\n}})();")


def policy(scripts: Sequence[Script]) -> str:
    """Content security policy: these scripts and inline styles, and no network at all."""
    sources = " ".join(script.source for script in scripts)
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'unsafe-inline'; script-src {sources}"
    )


def dump_json(value: Any) -> str:
    """JSON for <script type="application/json">: ASCII only, no `<`; NaN and Inf become null.

    ASCII spells U+2028, U+2029 and lone surrogates as escapes, which every parser reads back.
    """
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
