"""Split the drop of one configuration, for the report: warehouse in, JSON out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sameweights.attribution.api import attribute
from sameweights.attribution.capability import ImpossibleCells
from sameweights.attribution.registry_cells import impossible_cells
from sameweights.attribution.warehouse_mechanism import add_mechanism
from sameweights.attribution.warehouse_source import read_comparisons
from sameweights.errors import UserError


def attribute_warehouse(
    warehouse: Path, reference: str, target: str, config: Path, out: Path
) -> None:
    """Write the attribution between two cells as JSON.

    A split that cannot be made at all (a cell that was stopped, sets that are not comparable) is
    a result with its reason: {"error": text}. The report shows it in place of the numbers.
    """
    try:
        record = _attribute(warehouse, reference, target, config)
    except UserError as error:
        record = {"error": str(error)}
    part = out.with_name(out.name + ".part")
    part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(out)


def _attribute(warehouse: Path, reference: str, target: str, config: Path) -> dict[str, Any]:
    comparisons = read_comparisons(warehouse, reference, target, primary=True)
    first = comparisons[0]
    table = first.table
    labels = impossible_cells(config, table.find(first.reference), table.find(first.target))
    found = attribute(table, first.reference, first.target, rules=[ImpossibleCells(labels)])
    return add_mechanism(warehouse, found).to_dict(items=True)
