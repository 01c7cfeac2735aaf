"""What every backend declares of itself, as Markdown: docs/backends.md.

`python -m runner.catalogue` prints it; torch and lm-eval must be there, no other runtime.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runner.backends import Backend, adapter_names, load_adapter
from runner.contract import KINDS
from runner.options import Option

COLUMNS = ("token_logprobs", "margins", "top_ids", "logits_sha256")
"""Evidence that has a column; candidates come with their log-probabilities."""

HEAD = """\
# Backends

Written by `make docs` from what each adapter declares; do not edit. "Run" means that the adapter
ran a real model with the named version; "sources" that its calls were checked against the
package's sources only, on no hardware.

"""


def render() -> str:
    """Return the whole page."""
    backends = {name: load_adapter(name) for name in adapter_names()}
    return "\n".join(
        [
            HEAD + "## Runtimes",
            "",
            *_table(
                ("adapter", "package", "versions", "tried", "note"),
                (_runtime(name, backend) for name, backend in backends.items()),
            ),
            "",
            "## Evidence",
            "",
            "A field that a runtime cannot give stays empty and is never counted.",
            "",
            *_table(
                ("adapter", "requests", *COLUMNS),
                (_evidence(name, backend) for name, backend in backends.items()),
            ),
            *(line for name, backend in backends.items() for line in _section(name, backend)),
            "",
        ]
    )


def _runtime(name: str, backend: type[Backend]) -> tuple[str, ...]:
    runtime = backend.RUNTIME
    if runtime is None:
        return (name, "none", "", "run", "")
    tried = f"{runtime.tried}: {runtime.tried_version}"
    return (name, runtime.package, f"`{runtime.supported}`", tried, runtime.note)


def _evidence(name: str, backend: type[Backend]) -> tuple[str, ...]:
    kinds = getattr(backend, "KINDS", KINDS)
    marks = ("yes" if column in backend.EVIDENCE else "no" for column in COLUMNS)
    return (name, "all" if tuple(kinds) == KINDS else ", ".join(kinds), *marks)


def _section(name: str, backend: type[Backend]) -> Iterable[str]:
    yield from ("", f"## `{name}`", "")
    yield from _table(
        ("option", "type", "default", "allowed"),
        ((f"`{key}`", *_option(option)) for key, option in backend.OPTIONS.items()),
    )
    yield from ("", "Precision recipes:", "")
    for recipe in backend.PRECISIONS:
        yield "- " + ", ".join(f"{key} `{value}`" for key, value in recipe.items())


def _option(option: Option) -> tuple[str, str, str]:
    allowed = ", ".join(f"`{value}`" for value in option.allowed)
    if option.minimum is not None:
        allowed = f"at least {option.minimum}"
    default = "not set" if option.default is None else f"`{option.default}`"
    return (option.kind.__name__, default, allowed or "any")


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Iterable[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"


if __name__ == "__main__":
    print(render(), end="")
