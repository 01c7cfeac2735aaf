"""Render the page, the Markdown summary and the verdict line."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sameweights.errors import UserError
from sameweights.reading import open_warehouse
from sameweights.report import flips, wording
from sameweights.report.advice import Hole, advise_next
from sameweights.report.agreement import read_agreement
from sameweights.report.classes import describe_classes
from sameweights.report.divergence import read_divergence
from sameweights.report.drawings import draw_all
from sameweights.report.embed import Script, dump_json, policy, wrap_script
from sameweights.report.export import write_tables
from sameweights.report.gaps import find_gaps, read_gaps
from sameweights.report.items import label_items, read_changed
from sameweights.report.margins import read_margins
from sameweights.report.matrix import arrange_grids, find_ends, group_holes, list_scores, read_cells
from sameweights.report.mechanism import describe_pairs
from sameweights.report.pairs import arrange_equality, choose_points, list_pairs, say_pairs
from sameweights.report.rows import Numbers
from sameweights.report.split import read_split
from sameweights.report.tables import (
    Comparison,
    Row,
    read_comparison,
    read_meta,
    read_primary,
    read_rows,
)
from sameweights.report.trust import describe_runs, list_differences
from sameweights.report.verdict import say_verdict

SCRIPTS = ("theme.js", "tables.js", "charts.js", "items.js", "numbers.js")
KEY_FACTS = (
    "score_a",
    "score_b",
    "delta",
    "right_to_wrong",
    "wrong_to_right",
    "churn_tokens",
    "bitwise_equal_logits",
)
MAX_SUMMARY = 40
"""Rows of the summary's table."""

FILTERS = ("points", "percent", "plain", "nats", "p_value", "markdown", "short", "count_of")

BUNDLE = "window.vegaEmbed = vegaEmbed;"


def build_report(
    warehouse: Path,
    comparison: Path,
    attribution: Path | None,
    assets: Path,
    out_html: Path,
    out_md: Path,
    out_verdict: Path,
    out_tables: Path | None = None,
) -> None:
    """Write report.html (one file, offline), report.md, verdict.txt and a folder of tables.

    `attribution`: its JSON; None, an absent or a broken file is shown as not computed, with the
    reason. `assets`: template, style, scripts.
    Text from models, devices and configuration is escaped by the template engine, or travels as
    JSON and is shown as text only.
    """
    context = read_context(warehouse, comparison, attribution)
    write_text(out_html, render_html(context, assets))
    write_text(out_md, render_markdown(context, assets))
    write_text(out_verdict, context["verdict"].line + "\n")
    if out_tables:
        write_tables(comparison, context, out_tables)


def render_html(context: Row, assets: Path) -> str:
    """The whole page as one string."""
    texts = [_bundle_vega()]
    texts += [(assets / name).read_text(encoding="utf-8") for name in SCRIPTS]
    scripts: list[Script] = [wrap_script(text) for text in texts]
    style = (assets / "style.css").read_text(encoding="utf-8")
    environment = make_environment(assets)
    # The templates hand in every number that they show; the last line of the page holds them.
    environment.globals["numbers"] = Numbers(context["split_seed"])
    return environment.get_template("template.html.j2").render(
        **context, style=style, scripts=scripts, policy=policy(scripts), dump_json=dump_json
    )


def render_markdown(context: Row, assets: Path) -> str:
    """A summary for pull requests and chats."""
    environment = make_environment(assets)
    environment.globals["MAX_SUMMARY"] = MAX_SUMMARY
    return environment.get_template("summary.md.j2").render(**context)


def read_context(warehouse: Path, comparison: Path, attribution: Path | None) -> Row:
    """Gather everything that the templates show."""
    table = read_comparison(comparison)
    split = read_split(attribution)
    with open_warehouse(warehouse) as db:
        meta = read_meta(db)
        runs = list(read_rows(db, "SELECT * FROM runs ORDER BY cell, replicate"))
        cells = read_cells(db, runs)
        ends = find_ends(cells, meta["reference"], meta["target"])
        if not ends:
            raise UserError(
                f"{warehouse}: no model and seed has both cells of the comparison, "
                f"{meta['reference']!r} and {meta['target']!r}"
            )
        # One page explains one comparison; the other models and seeds get their verdicts.
        reference, target = ends[0]
        changed = read_changed(db, reference, target)
        labels = label_items((split or {}).get("classes"))
        flipped = {
            "task": flips.flips_by_task(table, read_primary(db), reference, target),
            "class": flips.flips_by_class(db, table, labels, reference, target),
        }
        seed = _only_seed(cells, reference)
        spread = {
            "agreement": read_agreement(db, reference, target),
            "divergence": read_divergence(db, reference, target),
            "margins": read_margins(db, reference, target),
            "gaps": read_gaps(db, split, seed),
        }
    for item in changed["items"]:
        item["class"] = labels.get((item["task"], item["doc_id"]))
    references = [end[0] for end in ends]
    holes = {
        cell["cell"]: Hole(cell["state"], cell["reason"] or "no item was measured")
        for cell in cells
        if not cell["n"]
    }
    measured = [cell["cell"] for cell in cells if cell["n"]]
    pairs, pairs_left_out = list_pairs(table, references, target)
    points, points_left_out = choose_points(table, references)
    scored, scored_left_out = list_scores(cells, ends)
    context = {
        "verdict": say_verdict(table, split, reference, target, holes),
        "others": [(end[1], say_verdict(table, None, *end, holes)) for end in ends[1:]],
        "split": split,
        "advice": _advise(split, holes),
        "split_seed": seed,
        "reference": reference,
        "target": target,
        "notes": _notes(meta["devices"]),
        "cells": cells,
        "scored": scored,
        "scored_left_out": scored_left_out,
        "holes": group_holes(cells),
        "grids": arrange_grids(cells, table, ends),
        "facts": _key_facts(table, reference, target),
        "pairs": pairs,
        "pairs_left_out": pairs_left_out,
        "compared": say_pairs(table, measured),
        "equality": arrange_equality(table, measured, (reference, target)),
        "changed": {**changed, "target": wording.short(target)},
        "differences": list_differences(runs, reference, target),
        "runs": describe_runs(runs),
        "flips": flipped,
        "classes": describe_classes(split, reference, target, attribution),
        **spread,
        "whole": find_gaps(split),
        "mechanism": describe_pairs(split, seed),
        "points": points,
        "points_left_out": points_left_out,
    }
    return {**context, "charts": draw_all(context)}


def _advise(split: Row | None, holes: dict[str, Hole]) -> str:
    """What would tell more about the first outcome that the matrix cannot split."""
    outcomes = (split or {}).get("outcomes", {}).values()
    unknown = (o["next_cells"] for o in outcomes if not o["identified"] and o["next_cells"])
    return advise_next(next(unknown, ()), holes)


def _only_seed(cells: list[Row], reference: str) -> int | None:
    """The seed of the explained model, where it has one."""
    seeds = {cell["seed"] for cell in cells if cell["model"] == reference.split("/")[0]}
    return seeds.pop() if len(seeds) == 1 else None


@cache
def _bundle_vega() -> str:
    """Vega, Vega-Lite and vegaEmbed as one script; made once, it takes a second."""
    return str(vl_convert.javascript_bundle(BUNDLE))


def _notes(devices: dict[str, Row]) -> list[tuple[str, list[str]]]:
    """Notes of the devices with the devices that share each."""
    grouped: dict[str, list[str]] = {}
    for name, device in sorted(devices.items()):
        if device.get("note"):
            grouped.setdefault(device["note"], []).append(name)
    return list(grouped.items())


def _key_facts(table: Comparison, reference: str, target: str) -> Row:
    return {name: table.find(reference, target, name) for name in KEY_FACTS}


def make_environment(assets: Path) -> Environment:
    """Return the template engine: everything is escaped, a missing name is an error."""
    environment = Environment(
        loader=FileSystemLoader(assets),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(wording, name)
        for name in (
            "points",
            "percent",
            "plain",
            "nats",
            "p_value",
            "markdown",
            "short",
            "count_of",
        )
    }
    return environment


def write_text(path: Path, text: str) -> None:
    """Write a page whole or not at all."""
    part = path.with_name(path.name + ".part")
    # A lone surrogate cannot be encoded: show its escape.
    part.write_bytes(text.encode("utf-8", "backslashreplace"))
    part.replace(path)
