"""All charts of the page: specifications, and the named data that they share."""

from __future__ import annotations

from collections.abc import Iterator

from sameweights.report import agreement, charts, divergence, flips, gaps, histogram, margins
from sameweights.report.tables import Row


def draw_all(context: Row) -> Row:
    """`specs` by the id of their place on the page, and the `datasets` that they name."""
    specs: Row = {}
    datasets: Row = {}
    for name, spec, data, rows in _draw(context):
        specs[name] = spec
        datasets[data] = rows
    return {"specs": specs, "datasets": datasets}


def _draw(context: Row) -> Iterator[tuple[str, Row, str, list[Row]]]:
    """Yield (chart, specification, name of its data, rows) of what there is to draw."""
    for name, title in (("score", "Score change"), ("churn_tokens", "Changed answers")):
        if outcome := (context["split"] or {}).get("outcomes", {}).get(name):
            key, bars = f"waterfall_{name}", charts.waterfall_rows(outcome)
            floor = outcome["noise"]["value"]
            yield key, charts.draw_waterfall(key, title, len(bars), floor), key, bars
    if points := context["points"]:
        rows = [charts.point_row(point) for point in points]
        yield "churn_delta", charts.draw_churn_against_delta(), "pairs", rows
    for by, entries in context["flips"].items():
        if entries:
            key, rows = f"flips_{by}", list(flips.chart_rows(entries))
            yield key, flips.draw_flips(key, by, len(entries)), key, rows
    if found := context["divergence"]:
        rows = list(histogram.chart_rows(found))
        yield "divergence", divergence.draw_divergence(len(found)), "divergence", rows
    if found := context["margins"]:
        yield "margins", margins.draw_margins(), "margins", list(histogram.chart_rows(found))
    if found := context["gaps"]:
        rows = list(gaps.chart_rows(found))
        yield "positions", gaps.draw_positions(len(found)), "gaps", rows
        yield "gaps", gaps.draw_gaps(len(found)), "gaps", rows
    if found := context["agreement"]:
        rows = list(agreement.chart_rows(found))
        for column in agreement.STATISTICS:
            spec = agreement.draw_agreement(column, len(found))
            yield f"agreement_{column}", spec, "agreement", rows
