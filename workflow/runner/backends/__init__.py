"""What a backend adapter is, and how one is found: one file a backend, by its name."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from runner.contract import CellSpec, Request, Response
from runner.options import Option, OptionError, suggest
from runner.runtime import Runtime


class Backend(Protocol):
    """Runs token-id requests on one loaded model.

    `RUNTIME` is the package behind it (None: the standard library);
    `OPTIONS` declares every option of the cell's `options`; `PRECISIONS` the recipes it can run;
    `EVIDENCE` the Response fields that it fills. `window` is the most positions the model has
    (None: unknown). A method gets one batch of the plan and returns one response a request, in
    order. A response may hold NaN or Inf: the executor turns it into status `error`.
    One that cannot answer every kind lists those it can in `KINDS`, and then has `decode(ids)`.
    """

    RUNTIME: ClassVar[Runtime | None]
    OPTIONS: ClassVar[dict[str, Option]]
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]]
    EVIDENCE: ClassVar[tuple[str, ...]]
    window: int | None

    def __init__(self, model_dir: Path, spec: CellSpec) -> None: ...

    def plan(self, requests: list[Request]) -> list[list[Request]]: ...

    def loglikelihood(self, batch: list[Request]) -> list[Response]: ...

    def generate(self, batch: list[Request]) -> list[Response]: ...

    def describe(self) -> dict[str, Any]: ...


def adapter_names() -> list[str]:
    """Names of the adapters in this package (files whose name starts with `_` are their parts)."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load_adapter(name: str) -> type[Backend]:
    """Import one adapter's class; raises OptionError for an unknown name."""
    names = adapter_names()
    if name not in names:
        raise OptionError(f"cell.json: key 'adapter' is {name!r}; {suggest(name, names)}")
    module = importlib.import_module(f"{__name__}.{name}")
    return cast("type[Backend]", module.Backend)
