"""Attribution rules: each turns the lattice into named contrasts that sum to v(all) - v(none)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sameweights.attribution.dividends import Contrast, add, difference, dividends
from sameweights.attribution.lattice import Lattice, LatticeError

INTERACTION = "interaction"


def total(lattice: Lattice) -> Contrast:
    """v(all) - v(none)."""
    return difference(lattice.full, 0)


def headline(lattice: Lattice) -> dict[str, Contrast]:
    """Main effects at the reference, then one interaction term where any can exist.

    A dividend with one top is that player's main effect; all others are interaction. Where
    impossible corners leave a single order, every step is a main effect: a term that is zero by
    construction would read as a finding.
    """
    mains: dict[str, Contrast] = {name: {} for name in lattice.names}
    for mask, dividend in dividends(lattice.family).items():
        tops = lattice.tops(mask)
        if len(tops) == 1:
            name = lattice.names[tops[0]]
            mains[name] = add([(1.0, mains[name]), (1.0, dividend)])
    if not interactions(lattice):
        return mains
    rest = add([(1.0, total(lattice)), *((-1.0, main) for main in mains.values())])
    return {**mains, INTERACTION: rest}


def interactions(lattice: Lattice) -> dict[str, Contrast]:
    """The interaction term by name: dividends with several tops, "backend x precision"."""
    named: dict[str, Contrast] = {}
    for mask, dividend in dividends(lattice.family).items():
        tops = lattice.tops(mask)
        if len(tops) > 1:
            name = " x ".join(lattice.names[j] for j in tops)
            if name in named:  # two corners with the same tops: say where
                name = f"{name} (in {'+'.join(lattice.members(mask))})"
            named[name] = dividend
    return named


def fair_shares(lattice: Lattice) -> dict[str, Contrast]:
    """Each dividend split equally among its tops.

    Shapley value on a full lattice, the priority value under precedence (Beal et al. 2022).
    """
    shares: dict[str, Contrast] = {name: {} for name in lattice.names}
    for mask, dividend in dividends(lattice.family).items():
        tops = lattice.tops(mask)
        for j in tops:
            name = lattice.names[j]
            shares[name] = add([(1.0, shares[name]), (1.0 / len(tops), dividend)])
    return shares


def path_counts(lattice: Lattice) -> dict[tuple[int, int, int], int]:
    """Number of feasible single-step paths, none to all, through each edge; no dead ends."""
    edges = lattice.edges()
    order = {mask: k for k, mask in enumerate(lattice.family)}
    down, up = {0: 1}, {lattice.full: 1}
    for low, high, _ in sorted(edges, key=lambda edge: order[edge[1]]):
        down[high] = down.get(high, 0) + down.get(low, 0)
    for low, high, _ in sorted(edges, key=lambda edge: -order[edge[0]]):
        up[low] = up.get(low, 0) + up.get(high, 0)
    counts = {edge: down.get(edge[0], 0) * up.get(edge[1], 0) for edge in edges}
    return {edge: count for edge, count in counts.items() if count}


def path_average(lattice: Lattice) -> dict[str, Contrast]:
    """Mean step of each player over all feasible paths (Faigle-Kern); an option, not the headline.

    An inert step reorders the paths and so moves shares between the other players.
    """
    counts = path_counts(lattice)
    paths = sum(count for (low, _, _), count in counts.items() if low == 0)
    averages: dict[str, Contrast] = {name: {} for name in lattice.names}
    for (low, high, j), count in counts.items():
        name = lattice.names[j]
        step = difference(high, low)
        averages[name] = add([(1.0, averages[name]), (count / paths, step)])
    return averages


def finest_run_chain(lattice: Lattice) -> list[int]:
    """Longest chain of run corners from none to all; among equals the one in factor order.

    Its steps are the separable blocks: what the run cells identify without any assumption.
    """
    best: dict[int, list[int]] = {}
    for mask in sorted(lattice.run, key=lambda m: m.bit_count()):
        chains = [best[sub] for sub in best if sub & mask == sub]
        best[mask] = [*min(chains, key=_chain_order, default=[]), mask]
    return best[lattice.full]


def _chain_order(chain: Sequence[int]) -> tuple[int, list[int]]:
    # At equal length, the chain that switches the earlier factors first.
    return -len(chain), [_low_bits_first(mask) for mask in chain]


def _low_bits_first(mask: int) -> int:
    # Masks are compared as if bit 0 were the most significant: set early is small.
    return -int(f"{mask:012b}"[::-1], 2)


def chain_steps(lattice: Lattice, chain: Sequence[int]) -> dict[str, Contrast]:
    """Steps along a chain of corners; a step over several players is named "backend+precision"."""
    steps: dict[str, Contrast] = {}
    for low, high in pairwise(chain):
        steps["+".join(lattice.members(high & ~low))] = difference(high, low)
    return steps


def chain_of_path(lattice: Lattice, path: str) -> list[int]:
    """Corners along a named path such as "device>precision>backend"; raises LatticeError.

    A step may name several players ("backend+precision"). Every corner must be feasible.
    """
    chain = [0]
    for step in path.split(">"):
        mask = chain[-1]
        for name in _players_of(lattice, step.strip()):
            mask |= 1 << lattice.names.index(name)
        if mask not in lattice.family:
            raise LatticeError(f"path {path!r}: cell {lattice.cell(mask)!r} is impossible")
        chain.append(mask)
    if chain[-1] != lattice.full or len(set(chain)) != len(chain):
        raise LatticeError(f"path {path!r}: must name each of {list(lattice.names)} once")
    return chain


def _players_of(lattice: Lattice, step: str) -> list[str]:
    if step in lattice.names:
        return [step]
    names = [name.strip() for name in step.split("+")]
    unknown = [name for name in names if name not in lattice.names]
    if unknown:
        raise LatticeError(f"path step {step!r}: unknown {unknown}; allowed {list(lattice.names)}")
    return names
