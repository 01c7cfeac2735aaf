"""Correctness flips of the explained pair, lost and won, by task and by class of item."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import altair as alt
import duckdb
import numpy as np

from sameweights.intervals import share
from sameweights.report.charts import COLOURS, finish
from sameweights.report.rows import class_rows, flipped_rows
from sameweights.report.tables import ALL, Comparison, Row, Scope, read_rows

WAYS = {"lost": "right_to_wrong", "won": "wrong_to_right"}
"""Statistic of the comparison by its way; each is a share of all items of its group."""

UNCLASSED = "without a class"


def flips_by_task(
    table: Comparison, primary: list[Scope], reference: str, target: str
) -> list[Row]:
    """One entry a task, all tasks first: its name and a row of the comparison each way.

    `primary`: the scopes by which the tasks are scored; under others the same items would be
    counted again.
    """
    names = {ALL: "all tasks", **{scope: scope[0] for scope in primary}}
    entries = [
        {"group": name, **_ways(table, reference, target, scope)} for scope, name in names.items()
    ]
    return [entry for entry in entries if all(map(_is_known, (entry[way] for way in WAYS)))]


def flips_by_class(
    db: duckdb.DuckDBPyConnection,
    table: Comparison,
    classes: Mapping[tuple[str, int], str],
    reference: str,
    target: str,
) -> list[Row]:
    """One entry a class that has flips: shares of all items, as rows with their own query.

    `classes`: label by (task, doc_id). Intervals are Wilson's.
    """
    totals = _ways(table, reference, target, ALL)
    if not classes or not all(map(_is_known, totals.values())):
        return []
    members: dict[str, list[Row]] = defaultdict(list)
    for item in read_rows(db, flipped_rows(reference, target)):
        members[classes.get((item["task"], item["doc_id"]), UNCLASSED)].append(item)
    entries = []
    for label, items in sorted(members.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        entry: Row = {"group": label}
        for way, statistic in WAYS.items():
            row = totals[way]
            count = sum(item[statistic] for item in items)
            (lo,), (hi,) = share(np.array([float(row["n"])]), np.array([float(count)]))
            keys = [(item["task"], item["doc_id"]) for item in items]
            number = {"estimate": count / row["n"], "lo": float(lo), "hi": float(hi)}
            entry[way] = {**row, **number, "sql": class_rows(row, keys)}
        entries.append(entry)
    return entries


def chart_rows(entries: list[Row]) -> Iterator[Row]:
    """Rows of the chart in percent of the items: lost to the left of zero, won to its right."""
    for entry in entries:
        for way, sign in (("lost", -100), ("won", 100)):
            number = entry[way]
            at = {key: number[key] for key in ("estimate", "lo", "hi", "noise_floor")}
            signed = {key: None if v is None else sign * v for key, v in at.items()}
            count = round(number["estimate"] * number["n"], 2)
            yield {
                "group": entry["group"],
                "way": way,
                **signed,
                "edge": signed["hi"] if signed["hi"] is not None else signed["estimate"],
                "count": f"{count:g}",
                "label": f"{count:g} of {number['n']}",
            }


def draw_flips(name: str, by: str, groups: int) -> Row:
    """Back-to-back bars with intervals and counts; a tick marks the noise floor."""
    base = alt.Chart(alt.NamedData(name)).encode(
        y=alt.Y("group:N", sort=None, title=None, axis=alt.Axis(labelLimit=180))
    )
    bars = base.mark_bar(height=16).encode(
        x=alt.X(
            "estimate:Q",
            title="← lost · share of items, % · won →",
            # Both sides are shares: the sign only says on which one a bar stands.
            axis=alt.Axis(labelExpr="abs(datum.value)", tickCount=6, labelFlush=False),
            scale=alt.Scale(padding=24),
        ),
        color=alt.Color(
            "way:N",
            legend=None,
            scale=alt.Scale(domain=list(WAYS), range=[COLOURS["loss"], COLOURS["gain"]]),
        ),
        tooltip=["group:N", "way:N", "label:N", alt.Tooltip("estimate:Q", format="+.1f")],
    )
    whiskers = base.mark_rule(strokeWidth=2).encode(x="lo:Q", x2="hi:Q")
    floor = base.mark_tick(thickness=3, height=22).encode(x="noise_floor:Q")
    zero = alt.Chart(alt.InlineData([{"at": 0}])).mark_rule().encode(x="at:Q")
    counts = base.encode(x="edge:Q", text="count:N")
    lost, won = (counts.transform_filter(alt.datum.way == way) for way in WAYS)
    labels = [lost.mark_text(align="right", dx=-6), won.mark_text(align="left", dx=6)]
    title = f"Items that went from right to wrong and from wrong to right, by {by}"
    return finish(alt.layer(zero, bars, whiskers, floor, *labels), title, 30 * groups)


def _is_known(row: Row | None) -> bool:
    """Whether the number was computed: a task may have no item that both cells answered."""
    return row is not None and row["estimate"] is not None


def _ways(table: Comparison, reference: str, target: str, scope: Scope) -> Row:
    return {way: table.find(reference, target, statistic, scope) for way, statistic in WAYS.items()}
