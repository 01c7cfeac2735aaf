"""Which corners cannot exist, worked out from the project's registries and capability rules."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from sameweights.attribution.lattice import Levels
from sameweights.capabilities import exclusion_reason, read_rules
from sameweights.cells import Registries


def impossible_cells(config: Path, reference: Levels, target: Levels) -> frozenset[str]:
    """Labels of the corners (model, device, backend, precision) that break a capability rule.

    `config` holds capabilities.yaml and the registries. Raises UserError for an unknown id.
    """
    registries = Registries.read(config)
    rules = read_rules(config / "capabilities.yaml")
    kinds = {
        "model": registries.models,
        "device": registries.devices,
        "backend": registries.backends,
        "precision": registries.precisions,
    }
    where = f"{config}: corner"
    impossible = set()
    for levels in product(*(dict.fromkeys(pair) for pair in zip(reference, target, strict=True))):
        facts = {
            kind: {"id": name, **registry.get(name, where).model_dump()}  # type: ignore[attr-defined]
            for (kind, registry), name in zip(kinds.items(), levels, strict=True)
        }
        if exclusion_reason(rules, facts) is not None:
            impossible.add("/".join(levels))
    return frozenset(impossible)
