"""The reference's gaps against tau: positions, flips seen and flips predicted, bin by bin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import duckdb

from sameweights.report.charts import COLOURS, finish
from sameweights.report.histogram import find_rerun, noise_floor, wilson
from sameweights.report.margins import TIE
from sameweights.report.rows import position_rows
from sameweights.report.tables import Row

AXIS = alt.Axis(tickCount=6, labelFlush=False)
ROWS = ("predicted", "at", "flips")
KINDS = ("seen", "predicted")
ONE_TAU = "1 – 2 tau"
"""The first bin whose gaps are wider than tau."""


def find_gaps(split: Row | None) -> Row | None:
    """The mechanism of the whole change where it has gaps by size."""
    pairs = (split or {}).get("mechanism") or []
    return next((pair for pair in pairs if pair["player"] == "total" and pair.get("gaps")), None)


def read_gaps(db: duckdb.DuckDBPyConnection, split: Row | None, seed: int | None) -> list[Row]:
    """One entry a bin of the whole change: its `name`, its limits in `nats`, and three rows.

    `at`: share of the token positions; `flips`: positions there that flip, of all positions;
    `predicted`: flips that tau makes likely, whose positions have no `value`. Empty without the
    mechanism. Where several seeds were read together (None), no query stands for them.
    """
    pair = find_gaps(split)
    if pair is None:
        return []
    cells = tuple(f"{pair[end]}/s{seed}" for end in ("from_cell", "to_cell"))
    if seed is None:
        return [_without_query(_describe(pair, gap, cells, [])) for gap in pair["gaps"]]
    reruns = [own for own in (_rerun(db, cell) for cell in find_rerun(db, *cells)) if own[0]]
    return [_describe(pair, gap, cells, reruns) for gap in pair["gaps"]]


def _without_query(entry: Row) -> Row:
    return {**entry, **{key: {**entry[key], "sql": None} for key in ROWS}}


def _rerun(db: duckdb.DuckDBPyConnection, cell: str) -> tuple[int, list[float]]:
    """Positions that two runs of a cell have in common, and the gaps where they flip."""
    rows = position_rows(cell, cell, runs=(0, 1)).rstrip(";")
    query = f"SELECT count(*), list(margin) FILTER (flipped = 1) FROM ({rows})"  # noqa: S608
    ((n, flips),) = db.execute(query).fetchall()
    return n, flips or []


def _describe(
    pair: Row, gap: Row, cells: tuple[str, ...], reruns: list[tuple[int, list[float]]]
) -> Row:
    n, planned, name = pair["positions"], pair["positions"] + pair["left_out"], name_gap(gap)
    inside = _spell(gap)
    shared = {"cell_a": cells[0], "cell_b": cells[1], "unit": "token positions"}
    shared |= {"n": n, "n_planned": planned}
    own = [(count, float(sum(_holds(gap, at) for at in flips))) for count, flips in reruns]
    return {
        "name": name,
        "nats": (gap["lo_nats"], gap["hi_nats"]),
        "predicted": {
            **shared,
            "statistic": f"token flips predicted at a gap of {name}",
            "n": gap["positions"],
            "n_planned": gap["positions"],
            "estimate": gap["predicted"],
            "lo": None,
            "hi": None,
            **noise_floor([]),
            "sql": position_rows(*cells, keep=f"({inside})"),
        },
        "at": {
            **shared,
            "statistic": f"positions with a gap of {name}",
            "count": gap["positions"],
            **wilson(gap["positions"], n),
            **noise_floor([]),
            "sql": position_rows(*cells, value=f"({inside})::INT"),
        },
        "flips": {
            **shared,
            "statistic": f"token flips at a gap of {name}",
            "count": gap["observed"],
            **wilson(gap["observed"], n),
            **noise_floor(own),
            "sql": position_rows(*cells, value=f"({inside})::INT * flipped"),
        },
    }


def name_gap(gap: Row) -> str:
    """A bin in taus; the chart's rows and the table call it the same."""
    lo, hi = gap["lo_taus"], gap["hi_taus"]
    if hi is None:
        return f"≥ {lo:g} tau"
    return TIE if hi == 0 else f"{lo:g} – {hi:g} tau"


def _spell(gap: Row) -> str:
    """The bin as a condition of the query; the tie is no part of the lowest bin."""
    lo, hi = gap["lo_nats"], gap["hi_nats"]
    if hi == 0:
        return "margin <= 0"
    above = f"margin > 0 AND margin >= {lo!r}"
    return above if hi is None else f"{above} AND margin < {hi!r}"


def _holds(gap: Row, margin: float) -> bool:
    lo, hi = gap["lo_nats"], gap["hi_nats"]
    if hi == 0:
        return margin <= 0
    return margin > 0 and margin >= lo and (hi is None or margin < hi)


def chart_rows(entries: list[Row]) -> Iterator[Row]:
    """Rows of both charts: positions in percent; flips seen, with their limits, and predicted."""
    for entry in entries:
        at, flips = entry["at"], entry["flips"]
        row = {"gap": entry["name"], "positions": at["count"]}
        row |= {
            name: 100 * at[key]
            for name, key in (("share", "estimate"), ("at_lo", "lo"), ("at_hi", "hi"))
        }
        lo, hi = (flips["n"] * flips[key] for key in ("lo", "hi"))
        yield {**row, "kind": KINDS[0], "flips": flips["count"], "lo": lo, "hi": hi}
        yield {
            **row,
            "kind": KINDS[1],
            "flips": entry["predicted"]["estimate"],
            "lo": None,
            "hi": None,
        }


def draw_positions(bins: int) -> Row:
    """Bars of the reference's gaps at all token positions; the rule is where the gap equals tau."""
    base = _base().transform_filter(alt.datum.kind == KINDS[0])
    bars = base.mark_bar(height=16, color=COLOURS["change"]).encode(
        x=alt.X("share:Q", title="share of token positions, %", axis=AXIS),
        tooltip=["gap:N", "positions:Q", alt.Tooltip("share:Q", format=".1f")],
    )
    whiskers = base.mark_rule(strokeWidth=2).encode(x="at_lo:Q", x2="at_hi:Q")
    title = "Token positions by the size of the reference's gap in taus"
    return finish(alt.layer(bars, whiskers, _at_tau()), title, 30 * bins)


def draw_gaps(bins: int) -> Row:
    """Bars of flips seen, diamonds of flips predicted; the rule is where the gap equals tau."""
    base = _base().encode(
        x=alt.X("flips:Q", title="token flips", axis=AXIS),
        color=alt.Color(
            "kind:N",
            title=None,
            legend=alt.Legend(orient="top"),
            scale=alt.Scale(domain=list(KINDS), range=[COLOURS["change"], COLOURS["loss"]]),
        ),
        tooltip=["gap:N", "kind:N", alt.Tooltip("flips:Q", format=".1f"), "positions:Q"],
    )
    seen = base.transform_filter(alt.datum.kind == KINDS[0])
    whiskers = _base().transform_filter(alt.datum.kind == KINDS[0]).mark_rule(strokeWidth=2)
    layers = [
        seen.mark_bar(height=16),
        whiskers.encode(x="lo:Q", x2="hi:Q"),
        base.transform_filter(alt.datum.kind == KINDS[1]).mark_point(
            shape="diamond", filled=True, size=110, opacity=1
        ),
        _at_tau(),
    ]
    title = "Token flips seen and predicted, by the size of the reference's gap in taus"
    return finish(alt.layer(*layers), title, 30 * bins)


def _base() -> Any:
    axis = alt.Axis(minExtent=96)
    y = alt.Y("gap:N", sort=None, title="reference's gap", axis=axis)
    return alt.Chart(alt.NamedData("gaps")).encode(y=y)


def _at_tau() -> Any:
    """A rule at tau, named where it stands."""
    at = alt.Chart(alt.InlineData([{"gap": ONE_TAU}])).mark_rule(strokeDash=[4, 4])
    return at.encode(y=alt.Y("gap:N", sort=None, bandPosition=0))
