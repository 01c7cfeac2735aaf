"""What a backend needs of the package behind it, checked on the device before anything is loaded.

A release that dropped a keyword or renamed a flag must stop the cell with what was found there,
not measure something else.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runner.checks import CheckFailure

HELP_TIMEOUT_S = 120


@dataclass(frozen=True)
class Runtime:
    """The package behind a backend, the versions it was written for, and how far it was tried.

    `supported` are bounds joined by commas (">=1.0,<1.3"); `tried` says whether the adapter ran
    a real model ("run") or was checked against the package's sources only ("sources"), and
    `tried_version` with which version.
    """

    package: str
    supported: str
    tried: Literal["run", "sources"]
    tried_version: str
    note: str = ""

    def check(self) -> str:
        """Return the installed version; raises CheckFailure when it is missing or unsupported."""
        try:
            found = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            raise CheckFailure(
                f"{self.package} is not installed; this backend needs {self.supported}"
            ) from None
        if not satisfies(found, self.supported):
            raise CheckFailure(
                f"{self.package} {found} is installed; this backend was written for "
                f"{self.supported}"
            )
        return found


def satisfies(version: str, bounds: str) -> bool:
    """Whether a version lies within bounds such as ">=1.0,<1.3"; release numbers only."""
    release = _release(version)
    for bound in bounds.split(","):
        found = re.fullmatch(r"\s*(>=|<=|==|<|>)\s*([0-9][0-9.]*)\s*", bound)
        if found is None:
            raise ValueError(f"bound {bound!r}; allowed: >=, <=, ==, <, > and a release number")
        sign, limit = found[1], _release(found[2])
        width = max(len(release), len(limit))
        have, want = (r + (0,) * (width - len(r)) for r in (release, limit))
        holds = {
            ">=": have >= want,
            "<=": have <= want,
            "==": have == want,
            "<": have < want,
            ">": have > want,
        }
        if not holds[sign]:
            return False
    return True


def require_parameters(found: Any, names: Sequence[str], where: str) -> None:
    """Raise CheckFailure unless a class or function takes every named parameter.

    Compiled bindings have no Python signature: their doc string lists the parameters.
    """
    maker: Any = getattr(found, "__init__", found) if inspect.isclass(found) else found
    text = maker.__doc__ or ""
    try:
        known = list(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        known = []
    if missing := [name for name in names if name not in known and f"{name}:" not in text]:
        raise CheckFailure(
            f"{where} has no parameter {', '.join(missing)}; "
            f"it has: {', '.join(known) or text.strip() or 'nothing'}"
        )


def require_flags(command: Sequence[str], flags: Sequence[str]) -> None:
    """Raise CheckFailure unless the program's help names every flag; `command` asks for help."""
    try:
        shown = subprocess.run(
            list(command), capture_output=True, timeout=HELP_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CheckFailure(f"{' '.join(command)}: {error}") from None
    words = set(
        re.findall(r"--?[A-Za-z][\w-]*", (shown.stdout + shown.stderr).decode(errors="replace"))
    )
    if missing := [flag for flag in flags if flag not in words]:
        raise CheckFailure(
            f"{' '.join(command)} does not know {', '.join(missing)} "
            f"(exit code {shown.returncode}, {len(words)} flags shown)"
        )


def _release(version: str) -> tuple[int, ...]:
    """The leading release numbers: "1.3.0rc11" -> (1, 3, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
