"""Mechanism of an attribution from the per-token evidence in the warehouse (table `responses`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from sameweights.attribution.inference import Floats
from sameweights.attribution.mechanism import (
    bin_flips,
    common_prefix,
    divergence_index,
    explain_flips,
    forecast,
    measure_tau,
)
from sameweights.attribution.results import Attribution, PairMechanism
from sameweights.reading import open_warehouse

TopIds = Sequence[Sequence[int]]
TopLogprobs = Sequence[Sequence[float]]

PLATFORM = "device"

_READ = """
SELECT a.token_ids, b.token_ids, a.top_ids, a.top_logprobs, b.top_ids, b.top_logprobs
FROM responses a JOIN responses b USING (request_id)
WHERE starts_with(a.cell, ?) AND starts_with(b.cell, ?) AND a.replicate = 0 AND b.replicate = 0
  AND split_part(a.cell, '/', 5) = split_part(b.cell, '/', 5)
  AND a.status = 'ok' AND b.status = 'ok'
  AND a.top_ids IS NOT NULL AND b.top_ids IS NOT NULL
ORDER BY request_id, a.cell
"""


@dataclass(frozen=True)
class Evidence:
    """Positions with the same context in two cells, and the answers they generated.

    [P]: `gap` of the reference's two best tokens (nats), `other` the gap of the same tokens in the
    other cell, `flipped` the best token differs, `sequence` request number. `left_out` positions
    lack one of the tokens in the other cell's stored candidates. `answer_gap`: gaps of all tokens
    that the reference generated. Per answer: its `lengths` in the reference, and the `divergence`
    index, -1 where it is the same.
    """

    gap: Floats
    other: Floats
    flipped: NDArray[np.bool_]
    sequence: NDArray[np.int64]
    left_out: int
    answer_gap: Floats
    lengths: NDArray[np.int64]
    divergence: NDArray[np.int64]


def add_mechanism(path: Path, found: Attribution) -> Attribution:
    """The attribution with its `mechanism`, from a warehouse opened read-only.

    Covers the steps away from the reference that were run, and the whole change. Cells without
    stored evidence are left out.
    """
    steps = [(s.player, s.to_cell) for s in found.steps if s.from_cell == found.reference]
    pairs = [*steps, ("total", found.target)]
    with open_warehouse(path) as db:
        tables = {row[0] for row in db.execute("SHOW TABLES").fetchall()}
        if "responses" not in tables:
            return found
        evidence = {
            (player, cell): read_evidence(db, found.reference, cell) for player, cell in pairs
        }
    known = {key: e for key, e in evidence.items() if len(e.gap)}
    platform = next(
        (_tau(e) for (player, _), e in known.items() if PLATFORM in player.split("+")), None
    )
    mechanism = tuple(
        explain_pair(player, found.reference, cell, e, platform)
        for (player, cell), e in known.items()
    )
    return replace(found, mechanism=mechanism)


def _tau(evidence: Evidence) -> float:
    return measure_tau(evidence.gap, evidence.other, evidence.sequence).tau_nats


def read_evidence(db: duckdb.DuckDBPyConnection, reference: str, other: str) -> Evidence:
    """Evidence of two cells "model/device/backend/precision" on the requests that both answered."""
    rows = db.execute(_READ, [f"{cell}/s" for cell in (reference, other)]).fetchall()
    gaps, others, flips, sequences, answer_gaps = [], [], [], [], []
    lengths, divergence, left_out = [], [], 0
    for number, (ours, theirs, ids_a, logs_a, ids_b, logs_b) in enumerate(rows):
        positions = len(ids_a)
        if ours is not None and theirs is not None:
            positions = common_prefix(ours, theirs)
            lengths.append(len(ours))
            first = divergence_index(ours, theirs)
            divergence.append(-1 if first is None else first)
            answer_gaps += [best - second for best, second, *_ in logs_a]
        for t in range(min(positions, len(ids_a), len(ids_b))):
            gap = gap_of(ids_a[t][:2], ids_b[t], logs_b[t])
            if gap is None:
                left_out += 1
                continue
            gaps.append(logs_a[t][0] - logs_a[t][1])
            others.append(gap)
            flips.append(ids_a[t][0] != ids_b[t][0])
            sequences.append(number)
    return Evidence(
        np.array(gaps, dtype=np.float64),
        np.array(others, dtype=np.float64),
        np.array(flips, dtype=np.bool_),
        np.array(sequences, dtype=np.int64),
        left_out,
        np.array(answer_gaps, dtype=np.float64),
        np.array(lengths, dtype=np.int64),
        np.array(divergence, dtype=np.int64),
    )


def gap_of(pair: Sequence[int], ids: Sequence[int], logprobs: Sequence[float]) -> float | None:
    """Log-probability of pair[0] minus that of pair[1] among stored candidates, or None."""
    known = dict(zip(ids, logprobs, strict=True))
    if len(pair) < 2 or pair[0] not in known or pair[1] not in known:
        return None
    return known[pair[0]] - known[pair[1]]


def explain_pair(
    player: str, reference: str, other: str, evidence: Evidence, platform_tau_nats: float | None
) -> PairMechanism:
    """Tau, predicted and observed flips, churn and divergence of one pair of cells."""
    tau = measure_tau(evidence.gap, evidence.other, evidence.sequence)
    reach = 0.0 if platform_tau_nats is None else platform_tau_nats
    flips = explain_flips(evidence.gap, evidence.flipped, tau.tau_nats, reach)
    answers = len(evidence.lengths)
    expected = None
    if len(evidence.answer_gap):
        expected = forecast(evidence.answer_gap, evidence.lengths, tau.tau_nats)
    changed = evidence.divergence >= 0
    wide = platform_tau_nats is not None
    return PairMechanism(
        player=player,
        from_cell=reference,
        to_cell=other,
        tau_nats=tau.tau_nats,
        interval=tau.interval,
        positions=tau.positions,
        sequences=tau.sequences,
        left_out=evidence.left_out,
        predicted_flips=flips.predicted,
        observed_flips=flips.observed,
        ties=flips.ties,
        too_wide=flips.too_wide if wide else None,
        too_wide_interval=flips.interval if wide else None,
        answers=answers,
        expected_churn=expected.churn if expected else None,
        observed_churn=float(changed.mean()) if answers else None,
        expected_divergence=expected.divergence_index if expected else None,
        observed_divergence=float(evidence.divergence[changed].mean()) if changed.any() else None,
        gaps=bin_flips(evidence.gap, evidence.flipped, tau.tau_nats),
    )
