"""Charts as Vega-Lite specifications over named data; colours come from the page's theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sameweights.report.tables import Row
from sameweights.report.wording import points, short

COLOURS = {"loss": "#D55E00", "gain": "#00A15E", "change": "#3366C0", "total": "#7B818C"}
"""Near Okabe and Ito's, moved until every kind of sight tells any two apart on either paper."""

AGAINST = ["the reference", "another cell"]


def waterfall_rows(outcome: Mapping[str, Any]) -> list[Row]:
    """Rows of a waterfall from reference to target, in points.

    Terms that the matrix does not identify are drawn from zero as their bounds.
    """
    terms = outcome["headline"] if outcome["identified"] else outcome["blocks"]
    signed = outcome["outcome"] == "score"
    rows: list[Row] = []
    at = 0.0
    for term in terms:
        value = term["estimate"]
        if value is None:
            lo, hi = term["bounds"]
            rows.append(_bar(f"{term['name']} (bounds)", lo, hi, "total", "not known"))
            continue
        kind = ("gain" if value > 0 else "loss") if signed else "change"
        rows.append(_bar(term["name"], at, at + value, kind, points(value), term["interval"]))
        at += value
    total = outcome["total"]
    value = total["estimate"] or 0.0
    return [*rows, _bar("total", 0.0, value, "total", points(value), total["interval"])]


def _bar(
    term: str,
    start: float,
    end: float,
    kind: str,
    label: str,
    interval: Sequence[float] | None = None,
) -> Row:
    """One bar; `interval` is of its length, so it is drawn from the bar's start."""
    base = 0.0 if kind == "total" else start
    lo, hi = (base + limit for limit in interval) if interval else (None, None)
    ends = {"start": start, "end": end, "lo": lo, "hi": hi}
    scaled = {key: None if value is None else 100 * value for key, value in ends.items()}
    edge = max(value for value in scaled.values() if value is not None)
    return {"term": term, **scaled, "edge": edge, "kind": kind, "label": label}


def draw_waterfall(name: str, title: str, bars: int, floor: float | None) -> Row:
    """Bars by cause with their intervals; the band is the noise floor."""
    base = alt.Chart(alt.NamedData(name)).encode(
        y=alt.Y("term:N", sort=None, title=None, axis=alt.Axis(labelLimit=160))
    )
    colour = alt.Color(
        "kind:N",
        legend=None,
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
    )
    spans = base.mark_bar(height=18).encode(
        x=alt.X("start:Q", title="points", scale=alt.Scale(padding=34), axis=alt.Axis(tickCount=8)),
        x2="end:Q",
        color=colour,
        tooltip=[
            "term:N",
            "label:N",
            alt.Tooltip("lo:Q", format=".1f"),
            alt.Tooltip("hi:Q", format=".1f"),
        ],
    )
    whiskers = base.mark_rule(strokeWidth=2).encode(x="lo:Q", x2="hi:Q")
    labels = base.mark_text(align="left", dx=6).encode(x="edge:Q", text="label:N")
    layers = [spans, whiskers, labels]
    zero = alt.Chart(alt.InlineData([{"at": 0}])).mark_rule().encode(x="at:Q")
    layers.insert(0, zero)
    if floor:
        band = alt.Chart(alt.InlineData([{"lo": -100 * floor, "hi": 100 * floor}]))
        layers.insert(0, band.mark_rect(opacity=0.25).encode(x="lo:Q", x2="hi:Q"))
    return finish(
        alt.layer(*layers), f"{title} split by cause, in points with 95% intervals", 30 * bars
    )


def point_row(point: Mapping[str, Any]) -> Row:
    """A pair's place in the plot of churn against score change, both in points."""
    row: Row = {"pair": " → ".join(map(short, point["cells"])), "against": point["against"]}
    row["n"] = point["delta"]["n"]
    for name in ("delta", "churn"):
        for key, suffix in (("estimate", ""), ("lo", "_lo"), ("hi", "_hi")):
            value = point[name][key]
            row[name + suffix] = None if value is None else 100 * value
    return row


def draw_churn_against_delta() -> Row:
    """One point a pair: equal scores can hide changed answers."""
    legend = alt.Legend(orient="top", symbolOpacity=1)
    base = alt.Chart(alt.NamedData("pairs")).encode(
        x=alt.X("delta:Q", title="score change, points", axis=alt.Axis(tickCount=8)),
        y=alt.Y("churn:Q", title="answers changed, %", scale=alt.Scale(domainMin=0)),
        color=alt.Color(
            "against:N",
            title="compared with",
            scale=alt.Scale(
                domain=AGAINST,
                range=[COLOURS["loss"], COLOURS["change"]],
            ),
            legend=legend,
        ),
    )
    across = base.mark_rule(opacity=0.45).encode(x="delta_lo:Q", x2="delta_hi:Q")
    along = base.mark_rule(opacity=0.45).encode(y="churn_lo:Q", y2="churn_hi:Q")
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        shape=alt.Shape(
            "against:N", title="compared with", legend=legend, scale=alt.Scale(domain=AGAINST)
        ),
        tooltip=[
            "pair:N",
            alt.Tooltip("delta:Q", format="+.1f", title="score, points"),
            alt.Tooltip("churn:Q", format=".1f", title="answers changed, %"),
            "n:Q",
        ],
    )
    zero = alt.Chart(alt.InlineData([{"at": 0}])).mark_rule(strokeDash=[4, 4]).encode(x="at:Q")
    title = "Share of changed answers against score change, one point a pair of cells"
    return finish(alt.layer(zero, across, along, dots), title, 260)


def finish(chart: Any, description: str, height: int) -> Row:
    """A specification that takes its width from its place and its colours from the page."""
    spec = chart.properties(width="container", height=height, description=description).to_dict()
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    # The page's theme is the only source of colours for text, axes and rules.
    spec.pop("config", None)
    spec.pop("$schema", None)
    return dict(spec)
