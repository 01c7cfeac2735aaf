"""Items by what changes their answer, as rows of the page."""

from __future__ import annotations

from pathlib import Path

from sameweights.report.histogram import noise_floor
from sameweights.report.rows import labelled_rows
from sameweights.report.tables import Row


def describe_classes(
    split: Row | None, reference: str, target: str, attribution: Path | None
) -> list[Row]:
    """One entry a class, largest first: its `name` and the row of its share.

    `attribution`: the JSON that the queries read; it lies beside the warehouse.
    """
    classes = (split or {}).get("classes")
    if not split or not classes or not attribution:
        return []
    planned = split["n_items"] + split["n_excluded"]
    return [
        {
            "name": entry["name"],
            "row": {
                "statistic": f"items of class {entry['name']}",
                "cell_a": reference,
                "cell_b": target,
                "n": entry["n"],
                "n_planned": planned,
                "count": entry["items"],
                "estimate": entry["share"],
                **dict(zip(("lo", "hi"), entry["interval"], strict=True)),
                **noise_floor([]),
                "sql": labelled_rows(entry["name"], attribution.name),
            },
        }
        for entry in classes["counts"]
    ]
