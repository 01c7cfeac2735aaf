"""`sameweights attribute`: split a drop from a warehouse, or from files that others made."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sameweights.attribution.api import attribute
from sameweights.attribution.capability import Capability, ImpossibleCells
from sameweights.attribution.render import render
from sameweights.attribution.results import Attribution
from sameweights.attribution.samples import read_tables
from sameweights.attribution.table import ItemTable, TableError, parse_label, table_from_long
from sameweights.errors import UserError

app = typer.Typer(add_completion=False)

Sides = tuple[ItemTable, str, str]


@app.command("attribute")
def attribute_command(
    reference: Annotated[str, typer.Option(help="cell compared against: device/backend/precision")],
    target: Annotated[str, typer.Option(help="cell under test")],
    warehouse: Annotated[Path, typer.Option(help="DuckDB file of the workflow")] = Path(
        "results/warehouse.duckdb"
    ),
    samples: Annotated[
        list[str] | None,
        typer.Option(help="label=path of an lm-eval sample file or folder; label is a cell[#n]"),
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help="CSV with columns cell,item,answer,correct")
    ] = None,
    outcome: Annotated[
        list[str] | None, typer.Option(help="score, churn, ...; all if none")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="per-item metric of lm-eval")] = None,
    filter_name: Annotated[str | None, typer.Option("--filter", help="lm-eval filter")] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="capability, e.g. 'trtllm needs jetson'")
    ] = None,
    config: Annotated[Path, typer.Option(help="folder of registries and capabilities.yaml")] = Path(
        "config"
    ),
    cluster: Annotated[
        str | None, typer.Option(help="doc field that items of one passage share (--samples)")
    ] = None,
    path: Annotated[str | None, typer.Option(help="order, e.g. device>precision>backend")] = None,
    cap: Annotated[
        list[str] | None, typer.Option(help="assumed largest step, e.g. device=0.01")
    ] = None,
    changed_only: Annotated[bool, typer.Option(help="count only items that differ")] = False,
    sampled: Annotated[bool, typer.Option(help="seeds vary the draws (sampled decoding)")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Split the change from reference to target by cause, with intervals, or refuse."""
    sides: Sequence[Sides]
    rules: list[Capability | str] = list(rule or [])
    if samples:
        pairs = [_label_and_path(text) for text in samples]
        tables = read_tables(pairs, metric, filter_name, cluster_field=cluster)
        sides = [(table, reference, target) for table in tables]
    elif items is not None:
        sides = [(read_items_csv(items), reference, target)]
    else:
        sides = _from_warehouse(warehouse, reference, target, metric, filter_name, sampled)
        rules += _registry_rules(config, sides[0])
    caps = dict(_number(text) for text in cap or [])
    found = [
        attribute(
            table,
            ref,
            tgt,
            rules=rules,
            outcomes=outcome,
            path=path,
            caps=caps,
            changed_only=changed_only,
        )
        for table, ref, tgt in sides
    ]
    if not samples and items is None:
        found = [_with_mechanism(warehouse, one) for one in found]
    typer.echo(_as_json(found) if as_json else "\n\n".join(render(one) for one in found))


def _as_json(found: Sequence[Attribution]) -> str:
    return json.dumps({"attributions": [one.to_dict() for one in found]}, indent=1, allow_nan=False)


def _label_and_path(text: str) -> tuple[str, Path]:
    label, equals, path = text.partition("=")
    if not equals or not label or not path:
        raise UserError(f"--samples {text!r}: expected label=path")
    return label, Path(path)


def _number(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not number >= 0:
        raise UserError(f"--cap {text!r}: expected player=number, not negative")
    return name, number


def read_items_csv(path: Path) -> ItemTable:
    """Item table from a CSV with columns cell, item, answer, correct (empty = missing)."""
    if not path.is_file():
        raise TableError(f"{path}: no such file")
    with path.open(newline="", encoding="utf-8") as handle:
        reader = csv.DictReader(handle)
        lacking = {"cell", "item", "answer", "correct"} - set(reader.fieldnames or ())
        if lacking:
            raise TableError(f"{path}: columns {sorted(lacking)} are missing")
        rows = []
        for line, row in enumerate(reader, 2):
            if None in row.values():
                raise TableError(f"{path}: line {line}: too few columns")
            try:
                correct = float(row["correct"]) if row["correct"] else None
            except ValueError:
                raise TableError(f"{path}: line {line}: correct {row['correct']!r}") from None
            rows.append((row["cell"], row["item"], row["answer"] or None, correct))
    if not rows:
        raise TableError(f"{path}: no rows")
    width = len(parse_label(rows[0][0])[0])
    names = ("device", "backend", "precision", *(f"factor{k}" for k in range(4, width + 1)))
    return table_from_long(rows, names[:width])


def _from_warehouse(
    warehouse: Path,
    reference: str,
    target: str,
    metric: str | None,
    filter_name: str | None,
    sampled: bool,
) -> list[Sides]:
    # Only this way needs duckdb.
    from sameweights.attribution.warehouse_source import read_comparisons

    found = read_comparisons(warehouse, reference, target, metric, filter_name, sampled)
    return [(one.table, one.reference, one.target) for one in found]


def _with_mechanism(warehouse: Path, found: Attribution) -> Attribution:
    from sameweights.attribution.warehouse_mechanism import add_mechanism

    return add_mechanism(warehouse, found)


def _registry_rules(config: Path, sides: Sides) -> list[Capability]:
    if not (config / "capabilities.yaml").is_file():
        return []
    from sameweights.attribution.registry_cells import impossible_cells

    table, reference, target = sides
    labels = impossible_cells(config, table.find(reference), table.find(target))
    return [ImpossibleCells(labels)]
