"""The lattice of cells between a reference and a target.

A corner is the set of players that have the target's level, kept as a bit mask. The feasible
family holds the corners that can exist; dividends, paths and shares are defined on it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sameweights.attribution.capability import Capability, feasible
from sameweights.attribution.results import CornerState
from sameweights.errors import UserError

Levels = tuple[str, ...]

MAX_FACTORS = 10
"""2^10 corners; more differing factors than that is a mix-up of cells, not a comparison."""


class LatticeError(UserError):
    """Reference, target and rules do not make a lattice; the message says why."""


@dataclass(frozen=True)
class Player:
    """One factor, or several that can never be switched apart, named "device+backend"."""

    name: str
    factors: tuple[str, ...]


@dataclass(frozen=True)
class Lattice:
    """Corners between reference and target.

    `levels[S]` is the cell of mask S (one level per factor of the table); `family` the feasible
    masks, by size; `run` those that were run. Bit j of a mask is `players[j]`.
    """

    factors: tuple[str, ...]
    players: tuple[Player, ...]
    levels: Mapping[int, Levels]
    family: tuple[int, ...]
    run: frozenset[int]
    notes: tuple[str, ...] = ()

    @property
    def full(self) -> int:
        return (1 << len(self.players)) - 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(player.name for player in self.players)

    @cached_property
    def feasible(self) -> frozenset[int]:
        return frozenset(self.family)

    @property
    def missing(self) -> tuple[int, ...]:
        """Feasible corners that were not run."""
        return tuple(mask for mask in self.family if mask not in self.run)

    def state(self, mask: int) -> CornerState:
        if mask in self.run:
            return "run"
        return "possible" if mask in self.feasible else "impossible"

    def cell(self, mask: int) -> str:
        return "/".join(self.levels[mask])

    def members(self, mask: int) -> tuple[str, ...]:
        """Names of the players switched in a mask."""
        return tuple(name for j, name in enumerate(self.names) if mask >> j & 1)

    def tops(self, mask: int) -> tuple[int, ...]:
        """Players that can be switched back in `mask` and leave a feasible corner."""
        return tuple(
            j
            for j in range(len(self.players))
            if mask >> j & 1 and mask & ~(1 << j) in self.feasible
        )

    def edges(self) -> list[tuple[int, int, int]]:
        """All feasible single steps as (from mask, to mask, player)."""
        return [(mask & ~(1 << j), mask, j) for mask in self.family for j in self.tops(mask)]


def build_lattice(
    factors: Sequence[str],
    reference: Levels,
    target: Levels,
    run_cells: Iterable[Levels],
    rules: Sequence[Capability] = (),
) -> Lattice:
    """Corners between two cells, feasibility from the rules, inseparable factors merged.

    Raises LatticeError when the cells are equal, were not run, break a rule, or when a cell that
    was run breaks a rule.
    """
    run = set(run_cells)
    active = [k for k, (r, t) in enumerate(zip(reference, target, strict=True)) if r != t]
    _check_ends(factors, reference, target, active, run)

    def levels_of(mask: int) -> Levels:
        switched = {k for bit, k in enumerate(active) if mask >> bit & 1}
        return tuple(target[k] if k in switched else reference[k] for k in range(len(factors)))

    def allowed(levels: Levels) -> bool:
        return feasible(dict(zip(factors, levels, strict=True)), rules)

    corners = {mask: levels_of(mask) for mask in range(1 << len(active))}
    family = {mask for mask, levels in corners.items() if allowed(levels)}
    _check_rules(corners, family, run, factors, rules)
    blocks = _merge(len(active), family)
    named = [tuple(factors[active[bit]] for bit in block) for block in blocks]
    players = tuple(Player("+".join(names), names) for names in named)
    wide = {mask: _spread(mask, blocks) for mask in range(1 << len(players))}
    kept = sorted((m for m, w in wide.items() if w in family), key=lambda m: (m.bit_count(), m))
    return Lattice(
        factors=tuple(factors),
        players=players,
        levels={mask: corners[w] for mask, w in wide.items()},
        family=tuple(kept),
        run=frozenset(mask for mask in kept if corners[wide[mask]] in run),
        notes=tuple(
            f"{' and '.join(player.factors)} can never be switched apart: one player"
            for player in players
            if len(player.factors) > 1
        ),
    )


def _check_ends(
    factors: Sequence[str],
    reference: Levels,
    target: Levels,
    active: Sequence[int],
    run: set[Levels],
) -> None:
    known = sorted("/".join(levels) for levels in run)
    for role, levels in (("reference", reference), ("target", target)):
        if levels not in run:
            raise LatticeError(f"{role} {'/'.join(levels)!r} was not run; run cells: {known}")
    if len(active) > MAX_FACTORS:
        names = [factors[k] for k in active]
        raise LatticeError(f"{len(active)} factors differ ({names}); at most {MAX_FACTORS}")


def _check_rules(
    corners: Mapping[int, Levels],
    family: set[int],
    run: set[Levels],
    factors: Sequence[str],
    rules: Sequence[Capability],
) -> None:
    for mask, levels in corners.items():
        if levels in run and mask not in family:
            cell = dict(zip(factors, levels, strict=True))
            broken = [str(rule) for rule in rules if not rule.allows(cell)]
            raise LatticeError(
                f"cell {'/'.join(levels)!r} was run, yet the rules forbid it: {broken}"
            )


def _spread(mask: int, blocks: Sequence[tuple[int, ...]]) -> int:
    """Player mask to factor mask."""
    return sum(1 << bit for j, block in enumerate(blocks) if mask >> j & 1 for bit in block)


def _merge(n_factors: int, family: set[int]) -> list[tuple[int, ...]]:
    """Blocks of factor bits that act as one player.

    First, factors that every feasible corner switches together. Then, as long as some corner
    cannot be reached by single steps, the factors of its smallest joint step.
    """
    blocks: list[tuple[int, ...]] = [(bit,) for bit in range(n_factors)]
    while True:
        joint = _inseparable(blocks, family) or _unreachable_step(blocks, family)
        if joint is None:
            return blocks
        merged = tuple(sorted(bit for block in joint for bit in block))
        blocks = sorted([block for block in blocks if block not in joint] + [merged])


def _inseparable(
    blocks: Sequence[tuple[int, ...]], family: set[int]
) -> list[tuple[int, ...]] | None:
    """Blocks that are in the same feasible corners, or None."""
    homes: dict[tuple[bool, ...], list[tuple[int, ...]]] = {}
    for block in blocks:
        homes.setdefault(tuple(bool(mask >> block[0] & 1) for mask in sorted(family)), []).append(
            block
        )
    return next((group for group in homes.values() if len(group) > 1), None)


def _unreachable_step(
    blocks: Sequence[tuple[int, ...]], family: set[int]
) -> list[tuple[int, ...]] | None:
    """Blocks of the smallest step into the first corner that no single step reaches, or None."""
    wide = [_spread(mask, blocks) for mask in range(1 << len(blocks))]
    kept = [mask for mask, spread in enumerate(wide) if spread in family]
    for mask in sorted(kept, key=lambda m: (m.bit_count(), m)):
        below = [sub for sub in kept if sub & mask == sub and sub != mask]
        if mask == 0 or any((mask ^ sub).bit_count() == 1 for sub in below):
            continue
        step = min((mask ^ sub for sub in below), key=lambda m: (m.bit_count(), m))
        return [block for j, block in enumerate(blocks) if step >> j & 1]
    return None
