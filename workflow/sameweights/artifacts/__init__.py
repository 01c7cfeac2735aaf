"""Converted and quantized weights: made once on the hub, hashed, and shared by every device.

One file a converter, found by its name, with one function
`convert(model, recipe, out, python) -> dict`: it writes into the folder `out` what the backend
loads and returns how that was made. `python` runs in the backend's own environment.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from sameweights.environments import installed_versions
from sameweights.errors import UserError, did_you_mean
from sameweights.models import write_manifest

CARRIED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
"""Files of the model folder that every artefact carries, unless its converter wrote its own."""


class Converter(Protocol):
    """The one function of a converter's module."""

    def convert(
        self, model: Path, recipe: Mapping[str, Any], out: Path, python: str
    ) -> dict[str, Any]: ...


def converter_names() -> list[str]:
    """Names of the converters (files whose name starts with `_` are their parts)."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load_converter(name: str) -> Converter:
    """Import one converter; raises UserError for an unknown name."""
    names = converter_names()
    if name not in names:
        raise UserError(f"backend: key 'artifact' is {name!r}{did_you_mean(name, names)}")
    return cast(Converter, importlib.import_module(f"{__name__}.{name}"))


def make_artifact(
    converter: str,
    model: str,
    model_dir: Path,
    model_manifest: Path,
    recipe: Mapping[str, Any],
    python: str,
    folder: Path,
    manifest: Path,
) -> None:
    """Convert a model's folder into `folder` and write its manifest of SHA-256, last.

    Raises UserError for an unknown converter or with what its tool said.
    """
    module = load_converter(converter)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    how = module.convert(model_dir, recipe, part, python)
    for name in CARRIED:
        if (model_dir / name).is_file() and not (part / name).exists():
            shutil.copyfile(model_dir / name, part / name)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    source = {
        "kind": "artifact",
        "converter": converter,
        "recipe": dict(recipe),
        "from": json.loads(model_manifest.read_bytes())["digest"],
        "how": how,
        "versions": installed_versions(python),
    }
    write_manifest(model, source, folder, manifest)
