"""The two ends of a comparison: labels to cells, and single replicates where a label has "#k"."""

from __future__ import annotations

from sameweights.attribution.lattice import Levels
from sameweights.attribution.table import ItemTable, TableError, parse_label


def choose_ends(
    table: ItemTable, reference: str, target: str
) -> tuple[ItemTable, tuple[Levels, Levels], bool]:
    """Table, (reference, target) levels, and whether a cell is compared with itself.

    "cell#k" means that one replicate alone. Two replicates of one cell become two corners: the
    replicate number is then a factor. Raises TableError.
    """
    ends = reference, target
    cells = [table.find(label.partition("#")[0]) for label in ends]
    if "#" not in reference + target:
        return table, (cells[0], cells[1]), False
    numbers = [parse_label(label)[1] if "#" in label else None for label in ends]
    if cells[0] == cells[1]:
        if None in numbers or numbers[0] == numbers[1]:
            raise TableError(f"{reference!r} and {target!r}: name two different replicates")
        wide = table.with_replicate_factor()
        first, second = (wide.find(label.replace("#", "/#")) for label in ends)
        return wide, (first, second), True
    for cell, number in zip(cells, numbers, strict=True):
        table = _keep_replicate(table, cell, number)
    return table, (cells[0], cells[1]), False


def _keep_replicate(table: ItemTable, cell: Levels, number: int | None) -> ItemTable:
    if number is None:
        return table
    rows = [k for k, run in enumerate(table.runs) if run.levels != cell or run.replicate == number]
    kept = table.take_runs(rows)
    if cell not in kept.cells:
        have = sorted(run.replicate for run in table.runs if run.levels == cell)
        raise TableError(f"cell {'/'.join(cell)!r}: no replicate #{number}; it has {have}")
    return kept
