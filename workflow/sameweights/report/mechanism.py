"""The reference's gaps against tau: flips seen and predicted, bin by bin."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import numpy as np

from sameweights.intervals import share
from sameweights.report.charts import COLOURS, TIE, finish
from sameweights.report.rows import position_rows
from sameweights.report.tables import Row

KINDS = ("seen", "predicted")
ONE_TAU = "1 – 2 tau"
"""The first bin whose gaps are wider than tau."""


def find_gaps(split: Row | None) -> Row | None:
    """The mechanism of the whole change where it has gaps by size."""
    pairs = (split or {}).get("mechanism") or []
    return next((pair for pair in pairs if pair["player"] == "total" and pair.get("gaps")), None)


def name_gap(gap: Row) -> str:
    """A bin in taus; the chart's rows and the table call it the same."""
    lo, hi = gap["lo_taus"], gap["hi_taus"]
    if hi is None:
        return f"≥ {lo:g} tau"
    return TIE if hi == 0 else f"{lo:g} – {hi:g} tau"


def flip_row(pair: Row, seed: int | None, gap: Row | None = None) -> Row | None:
    """Flips seen of a pair, or of one bin, as a share of its positions, with the way to its rows.

    None without positions, and where several seeds were read together. Wilson's interval.
    """
    source = gap or pair
    n = source["positions"]
    if seed is None or not n:
        return None
    seen = gap["observed"] if gap else pair["observed_flips"]
    (lo,), (hi,) = share(np.array([float(n)]), np.array([float(seen)]))
    cell_a, cell_b = (f"{pair[end]}/s{seed}" for end in ("from_cell", "to_cell"))
    return {
        "statistic": "token flips",
        "cell_a": cell_a,
        "cell_b": cell_b,
        "n": n,
        "n_planned": n + (0 if gap else pair["left_out"]),
        "estimate": seen / n,
        "lo": float(lo),
        "hi": float(hi),
        "noise_floor": None,
        "noise_floor_hi": None,
        "sql": position_rows(cell_a, cell_b, gap),
    }


def chart_rows(pair: Row) -> Iterator[Row]:
    """Rows of the chart: flips seen and predicted a bin, with the positions in it."""
    for gap in pair["gaps"]:
        for kind, flips in zip(KINDS, (gap["observed"], gap["predicted"]), strict=True):
            row = {"gap": name_gap(gap), "kind": kind, "flips": flips}
            yield {**row, "positions": gap["positions"]}


def draw_gaps(bins: int) -> Row:
    """Bars of flips seen, diamonds of flips predicted; the rule is where the gap equals tau."""
    base = alt.Chart(alt.NamedData("gaps")).encode(
        y=alt.Y("gap:N", sort=None, title="reference's gap"),
        x=alt.X("flips:Q", title="token flips"),
        color=alt.Color(
            "kind:N",
            title=None,
            legend=alt.Legend(orient="top"),
            scale=alt.Scale(domain=list(KINDS), range=[COLOURS["change"], COLOURS["loss"]]),
        ),
        tooltip=["gap:N", "kind:N", alt.Tooltip("flips:Q", format=".1f"), "positions:Q"],
    )
    rule = alt.Chart(alt.InlineData([{"gap": ONE_TAU}])).mark_rule(strokeDash=[4, 4])
    layers = [
        base.transform_filter(alt.datum.kind == KINDS[0]).mark_bar(height=16),
        base.transform_filter(alt.datum.kind == KINDS[1]).mark_point(
            shape="diamond", filled=True, size=110, opacity=1
        ),
        rule.encode(y=alt.Y("gap:N", sort=None, bandPosition=0)),
    ]
    title = "Token flips seen and predicted, by the size of the reference's gap in taus"
    return finish(alt.layer(*layers), title, 30 * bins)
