"""What one attribution sees: the lattice, the rows of each run corner, and the items they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.capability import Capability
from sameweights.attribution.inference import Sampling, plan_sampling
from sameweights.attribution.lattice import Lattice, Levels, build_lattice
from sameweights.attribution.table import ItemTable, TableError

Pair = tuple[int, int]


@dataclass(frozen=True)
class View:
    """Table on the items that every run corner scored, with row numbers per corner.

    `rows[S]`: runs of corner S; `masks`: run corners in column order of every outcome array.
    """

    table: ItemTable
    lattice: Lattice
    rows: Mapping[int, tuple[int, ...]]
    masks: tuple[int, ...]
    sampling: Sampling
    n_excluded: int
    errors: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.table.keys)

    def pairs_across(self, a: int, b: int) -> list[Pair]:
        """Row pairs that compare two corners, by what a seed means.

        Few-shot seeds change the prompts: only equal seeds compare. Sampling seeds couple the
        draws: only different seeds are independent.
        """
        return [(i, j) for i in self.rows[a] for j in self.rows[b] if self._comparable(i, j)]

    def pairs_within(self, mask: int) -> list[Pair]:
        """Row pairs of replicates of one corner, each pair once."""
        rows = self.rows[mask]
        return [(i, j) for k, i in enumerate(rows) for j in rows[k + 1 :] if self._comparable(i, j)]

    def score_noise(self, mask: int) -> list[float]:
        """Absolute score differences between the replicates of a corner."""
        values = self.table.values
        return [float(abs((values[i] - values[j]).mean())) for i, j in self.pairs_within(mask)]

    def rows_of_seed(self, seed: int) -> dict[int, tuple[int, ...]]:
        """Rows of each run corner under one seed."""
        return {
            mask: tuple(row for row in group if self.table.runs[row].seed == seed)
            for mask, group in self.rows.items()
        }

    def _comparable(self, i: int, j: int) -> bool:
        same = self.table.runs[i].seed == self.table.runs[j].seed
        role = self.table.seeds
        return role == "replicate" or same == (role == "fewshot")


def prepare(
    table: ItemTable, reference: Levels, target: Levels, rules: Sequence[Capability]
) -> View:
    """Build the lattice and keep the items that every run corner scored.

    Items without a score in some run are left out everywhere, never counted as wrong, and their
    number is told. Raises TableError when nothing is left.
    """
    run_cells = [*table.cells, *(cell for cell, scored in table.others.items() if scored)]
    lattice = build_lattice(table.factors, reference, target, run_cells, rules)
    masks = tuple(mask for mask in lattice.family if mask in lattice.run)
    rows = {mask: tuple(table.cells[lattice.levels[mask]]) for mask in masks}
    notes = list(lattice.notes)
    if table.seeds == "fewshot":
        rows = _common_seeds(table, rows, notes)
    used = sorted({row for group in rows.values() for row in group})
    scored: NDArray[np.bool_] = np.asarray(np.isfinite(table.values[used]).all(axis=0))
    errors = {
        lattice.cell(mask): int((~np.isfinite(table.values[list(group)])).any(axis=0).sum())
        for mask, group in rows.items()
    }
    excluded = int((~scored).sum())
    if excluded == len(scored):
        raise TableError(f"no item was scored in every run of {sorted(errors)}; errors: {errors}")
    if excluded:
        notes.append(
            f"{excluded} of {len(scored)} items have no score in some run cell and are left out"
        )
        table = table.take(scored)
    sampling = plan_sampling(table.strata, table.clusters)
    return View(table, lattice, rows, masks, sampling, excluded, errors, tuple(notes))


def _common_seeds(
    table: ItemTable, rows: Mapping[int, tuple[int, ...]], notes: list[str]
) -> dict[int, tuple[int, ...]]:
    seeds = [{table.runs[row].seed for row in group} for group in rows.values()]
    common = set.intersection(*seeds)
    if not common:
        raise TableError("cells share no few-shot seed: their prompts differ item by item")
    if any(found != common for found in seeds):
        notes.append(f"only the few-shot seeds that all cells share are used: {sorted(common)}")
    return {
        mask: tuple(row for row in group if table.runs[row].seed in common)
        for mask, group in rows.items()
    }
