"""The charts as files, drawn without a browser and without the network."""

from __future__ import annotations

from pathlib import Path

import vl_convert

from sameweights.report.tables import Row

WIDTH = 640
"""Pixels of a chart; on the page it takes the width of its place."""


def write_plots(charts: Row, folder: Path) -> list[Path]:
    """Write <chart>.svg and <chart>.png (twice the size) of every chart; returns the paths.

    `charts`: `specs` by name and the `datasets` that they share, as on the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, spec in charts["specs"].items():
        datasets = {**spec.get("datasets", {}), **charts["datasets"]}
        whole = {**spec, "datasets": datasets, "width": WIDTH, "background": "white"}
        image = folder / f"{name}.png"
        image.write_bytes(vl_convert.vegalite_to_png(whole, scale=2))
        drawing = folder / f"{name}.svg"
        drawing.write_text(vl_convert.vegalite_to_svg(whole), encoding="utf-8")
        written += [drawing, image]
    return written
