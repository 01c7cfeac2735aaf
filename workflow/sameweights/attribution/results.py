"""What an attribution says: the records, and the shape of their JSON.

Every number that is printed is an `Estimate`, so it carries n, an interval, a verdict on its
identification, and the noise floor of its outcome. `Attribution.to_dict()` documents the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

Interval = tuple[float, float]
Verdict = Literal["identified", "sign identified", "partially identified", "not identified"]
CornerState = Literal["run", "possible", "impossible"]

FEW_CONTRIBUTING = 10
"""Below this many contributing items an interval is conservative and `few_items` is set."""


@dataclass(frozen=True)
class Estimate:
    """One number of a split.

    `estimate`: the point value; None where it is not identified.
    `interval`: 95% interval. Point-identified: clustered t interval with two imaginary items.
        Otherwise the Imbens-Manski interval of `bounds`. None when fewer than 2 clusters exist.
    `simultaneous`: interval valid for all terms of the same split at once (max-|z|).
    `bounds`: worst case over the cells that were not run (no assumption); both ends equal the
        estimate when it is identified.
    `envelope`: bounds if each missing item value lies in the range of that item's run cells
        (an assumption). `capped`: bounds under caps on single steps (an assumption), when given.
    `breakdown`: largest cap on every single step for which the sign is still decided; None when
        no cap that the data allow decides it, or when none is needed.
    `p`, `p_holm`: two-sided p value, and adjusted over the terms of the same split.
    `n`: items; `contributing`: items with a non-zero contribution; `few_items`: fewer than 10.
    `noise_floor`: the outcome's statistic between replicates of an unchanged cell; None when
        no cell was replicated (unknown, not zero).
    """

    name: str
    estimate: float | None
    interval: Interval | None
    bounds: Interval
    verdict: Verdict
    n: int
    contributing: int
    few_items: bool
    noise_floor: float | None = None
    se: float | None = None
    df: float | None = None
    simultaneous: Interval | None = None
    envelope: Interval | None = None
    capped: Interval | None = None
    breakdown: float | None = None
    p: float | None = None
    p_holm: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """True when the 95% interval lies on one side of zero."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)


@dataclass(frozen=True)
class Share:
    """A term as a share of the total (1.0 = all of it), with Fieller's interval.

    Not `reportable` (share and interval None, `reason` says why) unless the total's interval
    excludes zero.
    """

    name: str
    reportable: bool
    share: float | None = None
    interval: Interval | None = None
    n: int = 0
    noise_floor: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class OrderRange:
    """Smallest and largest step of a player over feasible paths: how much the order matters.

    `steps_run` of `steps_feasible` single steps could be measured; None when no step was run.
    """

    player: str
    lo: float | None
    hi: float | None
    steps_run: int
    steps_feasible: int


@dataclass(frozen=True)
class NoiseFloor:
    """The outcome's statistic between replicates of the same cell.

    `value`: mean over reference and target (None: no replicates). `upper`: 95% upper limit;
    with bitwise-identical replicates 1 - 0.05^(1/n). `cells`: value per replicated cell.
    `readings`: one or two sentences saying how to read it. `beyond_noise_p`: permutation p value
    that reference and target differ by more than their replicates do (churn outcomes).
    """

    value: float | None
    upper: float | None
    replicate_pairs: int
    n: int
    cells: Mapping[str, float] = field(default_factory=dict)
    readings: tuple[str, ...] = ()
    beyond_noise_p: float | None = None


@dataclass(frozen=True)
class NextCell:
    """A cell to run next. Widths are worst-case bound widths that running it removes.

    `decides`: names of terms that become identified; `separates`: separable blocks gained;
    `cost_s`: device seconds to expect, when known (mean run on that device).
    """

    cell: str
    width_removed: float
    fair_share_width_removed: float
    decides: tuple[str, ...]
    separates: int
    cost_s: float | None = None


@dataclass(frozen=True)
class PathSplit:
    """Differences along one named path of cells; they telescope to the total."""

    name: str
    cells: tuple[str, ...]
    terms: tuple[Estimate, ...]


@dataclass(frozen=True)
class OutcomeSplit:
    """One outcome (score, churn, ...) split between reference and target.

    `headline`: main effect per player at the reference plus one `interaction` term.
    `interactions`: that term by name ("device x precision", ...). `fair_share`: priority value.
    `path_average`: plain mean over feasible paths. `path`: the default or named path.
    `blocks`: finest split that the run cells identify without assumption.
    `raw_total`: for churn_excess the raw churn; total + noise floor = raw_total.
    """

    outcome: str
    unit: str
    total: Estimate
    headline: tuple[Estimate, ...]
    interactions: tuple[Estimate, ...]
    fair_share: tuple[Estimate, ...]
    path_average: tuple[Estimate, ...]
    path: PathSplit
    order_sensitivity: tuple[OrderRange, ...]
    blocks: tuple[Estimate, ...]
    shares: tuple[Share, ...]
    noise: NoiseFloor
    next_cells: tuple[NextCell, ...]
    identified: bool
    sentence: str
    critical_value: float | None = None
    raw_total: Estimate | None = None


@dataclass(frozen=True)
class Corner:
    """One cell of the lattice. `switched`: players at the target's level."""

    cell: str
    switched: tuple[str, ...]
    state: CornerState
    replicates: int = 0
    score: Estimate | None = None


@dataclass(frozen=True)
class FlipTest:
    """Correctness flips between two cells and McNemar's test.

    `right_to_wrong` (b), `wrong_to_right` (c): items. `exact`, `mid_p`: two-sided p values.
    `holm`, `bh`: mid-p adjusted over the steps of this attribution. `e_value`: anytime valid.
    `ties`: flips where an exact tie sits in either cell; `extraction_only`: flips where the
    answer still holds the right number and the filter lost it; `other_changes`: answer changed,
    correctness did not.
    """

    from_cell: str
    to_cell: str
    n: int
    right_to_wrong: int
    wrong_to_right: int
    exact: float
    mid_p: float
    e_value: float
    holm: float | None = None
    bh: float | None = None
    ties: int = 0
    extraction_only: int = 0
    other_changes: int = 0


@dataclass(frozen=True)
class Step:
    """One run edge of the lattice: a single player switched between neighbouring cells.

    Step churns do not add up to the net churn; see `Churn gap` in docs/method.md.
    """

    player: str
    from_cell: str
    to_cell: str
    score: Estimate
    churn: Mapping[str, Estimate]
    flips: FlipTest | None


@dataclass(frozen=True)
class ClassCount:
    """Items of one class ("device", "device|precision", "[backend+precision]", ...)."""

    name: str
    items: int
    share: float
    interval: Interval
    n: int


@dataclass(frozen=True)
class Classes:
    """Item classes by which switches change the answer, at the stated churn level.

    `sufficiency`: P(the player's single switch changes the answer | changed at the target).
    `necessity`: P(not changed without it | changed at the target). Both null where cells are
    missing. `labels`: class per item, in the order of `items` keys (task, doc_id, filter).
    """

    level: str
    counts: tuple[ClassCount, ...]
    sufficiency: tuple[Estimate, ...]
    necessity: tuple[Estimate, ...]
    labels: tuple[str, ...] = ()
    items: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True)
class GapBin:
    """Token positions whose gap in the reference lies in [lo, hi); both 0 for exact ties.

    Limits in nats and in taus, None without an upper one; flips `observed` and `predicted` there.
    """

    lo_nats: float
    hi_nats: float | None
    lo_taus: float
    hi_taus: float | None
    positions: int
    observed: int
    predicted: float


@dataclass(frozen=True)
class PairMechanism:
    """Why tokens flip between two run cells; see `mechanism`. Where evidence was stored.

    `tau_nats` with `interval`, over `positions` common to both in `sequences` requests; `left_out`
    positions lack the two tokens in the stored evidence. `predicted_flips`, `observed_flips`:
    tokens whose best candidate changes; `ties`: observed at a tie. `too_wide`: share of them at a
    gap above 5 platform taus (None: the platform step was not run), with Wilson's interval.
    `expected_churn`, `observed_churn`: generated answers that change, of `answers`.
    `expected_divergence`, `observed_divergence`: mean position (from 0) of the first differing
    token, both over answers that change before their end. `gaps`: flips by the size of the gap.
    """

    player: str
    from_cell: str
    to_cell: str
    tau_nats: float
    interval: Interval | None
    positions: int
    sequences: int
    left_out: int
    predicted_flips: float
    observed_flips: int
    ties: int
    too_wide: float | None
    too_wide_interval: Interval | None
    answers: int
    expected_churn: float | None
    observed_churn: float | None
    expected_divergence: float | None
    observed_divergence: float | None
    gaps: tuple[GapBin, ...] = ()


@dataclass(frozen=True)
class Power:
    """What this many items can show. `flip_share`: share of items whose correctness flips."""

    n: int
    flip_share: float
    detectable: float | None
    items_needed_for_observed: int | None
    items_needed_for_half_point: int | None


@dataclass(frozen=True)
class Attribution:
    """The whole answer for one reference and one target."""

    reference: str
    target: str
    metric: str
    filter: str
    factors: tuple[str, ...]
    players: tuple[str, ...]
    n_items: int
    n_excluded: int
    n_strata: int
    n_clusters: int
    confidence: float
    corners: tuple[Corner, ...]
    outcomes: Mapping[str, OutcomeSplit]
    steps: tuple[Step, ...]
    flips: FlipTest | None
    classes: Classes | None
    power: Power | None
    bridge: PathSplit | None
    errors: Mapping[str, int]
    verdict: str
    notes: tuple[str, ...]
    mechanism: tuple[PairMechanism, ...] = ()

    def to_dict(self, items: bool = False) -> dict[str, Any]:
        """JSON-clean dict: dataclasses to objects, tuples to arrays, NaN and Inf to null.

        ```
        reference, target            cell ids, "device/backend/precision"
        metric, filter               what was scored
        factors                      factors that differ between reference and target
        players                      the same after merging what can never be switched apart
        n_items, n_excluded          items used; items left out (not scored in every run cell)
        n_strata, n_clusters, confidence
        corners[]                    cell, switched[], state run|possible|impossible,
                                     replicates, score (Estimate|null)
        outcomes{name}               score, churn, churn_excess, right_to_wrong, ...
          unit                       "proportion", "nats", ...
          total                      Estimate
          headline[]                 Estimate per player, then "interaction" if any
          interactions[]             Estimate per named interaction
          fair_share[], path_average[]  Estimate per player
          path                       name "device>backend>precision", cells[], terms[]
          order_sensitivity[]        player, lo, hi, steps_run, steps_feasible
          blocks[]                   Estimate, name "backend+precision" for what is inseparable
          shares[]                   name, reportable, share, interval, n, noise_floor, reason
          noise                      value, upper, replicate_pairs, n, cells{}, readings[],
                                     beyond_noise_p
          next_cells[]               cell, width_removed, fair_share_width_removed, decides[],
                                     separates, cost_s
          identified                 false: the split is refused, show blocks and next_cells
          sentence                   plain words
          critical_value, raw_total
        steps[]                      player, from_cell, to_cell, score, churn{level}, flips
        flips                        FlipTest between reference and target, or null
        classes                      level, counts[], sufficiency[], necessity[]
                                     (+ labels[], items[] when `items`)
        power                        n, flip_share, detectable, items_needed_*
        bridge                       path over cells with other levels, or null
        errors{cell}                 items not scored, per run cell
        verdict                      one plain sentence
        mechanism[]                  PairMechanism per run step from the reference, then the whole
                                     ("total"); empty without stored evidence
        notes[]                      what a reader must know (ties, merged factors, ...)

        Estimate: name, estimate|null, interval [lo,hi]|null, bounds [lo,hi], verdict, n,
          contributing, few_items, noise_floor|null, se, df, simultaneous, envelope, capped,
          breakdown, p, p_holm, excludes_zero
        ```
        """
        record: dict[str, Any] = clean(self)
        if not items and record["classes"] is not None:
            del record["classes"]["labels"], record["classes"]["items"]
        return record


def clean(value: Any) -> Any:
    """Turn records into JSON-clean values; numbers that are not finite become None."""
    if isinstance(value, Estimate):
        record = {f.name: clean(getattr(value, f.name)) for f in fields(value)}
        return {**record, "excludes_zero": value.excludes_zero}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: clean(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): clean(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [clean(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
