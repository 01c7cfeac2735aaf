"""Why answers flip: the noise a cell puts on log-probability gaps, against the gaps themselves.

m is the reference's gap between its two best tokens (nats), x the change of that gap in another
cell on the same context, tau the spread of x. A token flips when the change beats the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sameweights.attribution.inference import Floats, wilson
from sameweights.attribution.results import GapBin, Interval

WIDE_IN_TAU = 5.0
"""A gap of more than this many platform taus is out of the platform's reach."""

DENSITY_WINDOW_TAUS = 1.0

GAP_EDGES_TAUS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, WIDE_IN_TAU, np.inf)
"""Bins of gaps; exact ties, where rounding decides whatever tau is, have one of their own."""


@dataclass(frozen=True)
class Tau:
    """Spread of the change of the gap between two cells.

    `tau_nats`: root mean square of x on common prefixes; `positions`: how many; `interval`: 95%,
    over sequences; None with fewer than two.
    """

    tau_nats: float
    positions: int
    sequences: int
    interval: Interval | None


def measure_tau(reference_gap: Floats, other_gap: Floats, sequence: NDArray[np.int64]) -> Tau:
    """Tau of a pair of cells from gaps at positions with the same context.

    All [P]: gap (log-probability of the reference's best token minus its second best, nats) in
    either cell, up to and including the first divergence of each sequence; sequence number of each
    position. Positions with a gap that is not finite are an error: ValueError.
    """
    x = other_gap - reference_gap
    if not np.isfinite(x).all():
        raise ValueError(f"{int((~np.isfinite(x)).sum())} of {len(x)} gaps are not finite")
    if len(x) == 0:
        raise ValueError("no position has a common prefix")
    _, group = np.unique(sequence, return_inverse=True)
    squares = np.asarray(np.bincount(group, weights=x**2), dtype=np.float64)
    counts = np.bincount(group).astype(np.float64)
    mean_square = float(squares.sum() / counts.sum())
    return Tau(
        tau_nats=mean_square**0.5,
        positions=len(x),
        sequences=len(counts),
        interval=_ratio_interval(squares, counts, mean_square),
    )


def _ratio_interval(squares: Floats, counts: Floats, ratio: float) -> Interval | None:
    """Interval of the root of a ratio of sums over sequences, on the log scale."""
    groups = len(counts)
    if groups < 2 or ratio == 0:
        return None
    residual = squares - ratio * counts
    se = float(np.sqrt(groups / (groups - 1) * (residual**2).sum()) / counts.sum())
    half = float(special.stdtrit(groups - 1, 0.975)) * se / ratio / 2
    root = ratio**0.5
    return root * float(np.exp(-half)), root * float(np.exp(half))


def common_prefix(reference: Sequence[int], other: Sequence[int]) -> int:
    """Number of positions with the same context: up to and including the first divergence."""
    for position, (ours, theirs) in enumerate(zip(reference, other, strict=False)):
        if ours != theirs:
            return position + 1
    return min(len(reference), len(other))


def divergence_index(reference: Sequence[int], other: Sequence[int]) -> int | None:
    """First generated token that differs, or None; a shorter answer differs where it ends."""
    for position, (ours, theirs) in enumerate(zip(reference, other, strict=False)):
        if ours != theirs:
            return position
    return None if len(reference) == len(other) else min(len(reference), len(other))


def flip_probability(gap: Floats, tau_nats: float) -> Floats:
    """P(flip | gap m) = Phi(-m / tau). At m = 0 it is 1/2 whatever tau is."""
    if tau_nats == 0:
        return np.where(gap > 0, 0.0, 0.5)
    return np.asarray(special.ndtr(-gap / tau_nats))


@dataclass(frozen=True)
class Forecast:
    """What a tau does to answers, from the reference's gaps alone.

    `flips_per_token` (lambda): E Phi(-m/tau). `small_tau`: its limit f(0) tau / sqrt(2 pi), f(0)
    the density of gaps at zero. `mean_divergence`: expected position of the first differing token
    of an endless answer, 1/lambda (None without flips). `churn`: share of answers that change over
    their own lengths, mean of 1 - exp(-lambda L). `divergence_index`: expected position of the
    first differing token of the answers that change within their own lengths (None without flips).
    """

    tau_nats: float
    positions: int
    flips_per_token: float
    small_tau: float
    mean_divergence: float | None
    churn: float
    divergence_index: float | None


def forecast(gap: Floats, lengths: NDArray[np.int64], tau_nats: float) -> Forecast:
    """Churn to expect at a tau; gap [P] of the reference (nats), lengths [n] in tokens.

    For a device that was never run: a short probe gives tau, stored gaps give the churn.
    """
    rate = float(flip_probability(gap, tau_nats).mean())
    near = float((gap <= DENSITY_WINDOW_TAUS * tau_nats).mean()) if tau_nats > 0 else 0.0
    density = near / (DENSITY_WINDOW_TAUS * tau_nats) if tau_nats > 0 else 0.0
    return Forecast(
        tau_nats=tau_nats,
        positions=len(gap),
        flips_per_token=rate,
        small_tau=density * tau_nats / float(np.sqrt(2 * np.pi)),
        mean_divergence=1 / rate if rate > 0 else None,
        churn=float(np.mean(1 - np.exp(-rate * lengths))),
        divergence_index=_expected_index(rate, lengths),
    )


def _expected_index(rate: float, lengths: NDArray[np.int64]) -> float | None:
    """Mean index of the first flip over answers that flip before their end, at `rate` a token."""
    if rate <= 0 or not lengths.any():
        return None
    index = np.arange(lengths.max())
    first = np.exp(-rate * index) * -np.expm1(-rate)
    sums = [np.concatenate(([0.0], np.cumsum(weights))) for weights in (index * first, first)]
    moment, changed = (float(total[lengths].sum()) for total in sums)
    return moment / changed


def combine(*taus_nats: float) -> float:
    """Tau of independent causes together: squares add."""
    return float(np.sqrt(sum(tau**2 for tau in taus_nats)))


@dataclass(frozen=True)
class FlipMechanism:
    """Token flips seen against those that tau predicts, and how many the platform cannot explain.

    `too_wide`: share of flips at a gap above 5 platform taus, a lower bound on "not caused by the
    platform", with Wilson's interval. `ties`: flips at a tie, which never identify a cause.
    """

    positions: int
    observed: int
    predicted: float
    too_wide: float | None
    interval: Interval | None
    ties: int


def explain_flips(
    gap: Floats,
    flipped: NDArray[np.bool_],
    tau_nats: float,
    platform_tau_nats: float,
    tie_nats: float = 0.0,
) -> FlipMechanism:
    """Compare token flips with their prediction; gap [P] of the reference, flipped [P]."""
    flips = int(flipped.sum())
    wide = int((flipped & (gap > WIDE_IN_TAU * platform_tau_nats)).sum())
    return FlipMechanism(
        positions=len(gap),
        observed=flips,
        predicted=float(flip_probability(gap, tau_nats).sum()),
        too_wide=wide / flips if flips else None,
        interval=wilson(wide, flips) if flips else None,
        ties=int((flipped & (gap <= tie_nats)).sum()),
    )


def bin_flips(gap: Floats, flipped: NDArray[np.bool_], tau_nats: float) -> tuple[GapBin, ...]:
    """Flips seen and predicted by the size of the reference's gap; none where tau is 0.

    gap [P] of the reference (nats), flipped [P]. Every position is in one bin.
    """
    if tau_nats == 0:
        return ()
    chance = flip_probability(gap, tau_nats)
    tie = gap <= 0
    within = [(0.0, 0.0, tie)]
    for lo, hi in pairwise(GAP_EDGES_TAUS):
        within.append((lo, hi, ~tie & (gap >= lo * tau_nats) & (gap < hi * tau_nats)))
    return tuple(
        GapBin(
            lo_nats=lo * tau_nats,
            hi_nats=None if hi == np.inf else hi * tau_nats,
            lo_taus=lo,
            hi_taus=None if hi == np.inf else hi,
            positions=int(own.sum()),
            observed=int((own & flipped).sum()),
            predicted=float(chance[own].sum()),
        )
        for lo, hi, own in within
    )
