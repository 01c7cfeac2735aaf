"""All changed answers on request: pages that hold the item browser alone, and one Parquet table.

A page from disk may not load data, so each part is a page of its own: self-contained, offline, with
the content security policy of the report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sameweights.errors import UserError
from sameweights.reading import open_warehouse
from sameweights.report.changed import find_changed
from sameweights.report.embed import dump_json, policy, wrap_script
from sameweights.report.items import MAX_ITEMS, label_items, lay_out
from sameweights.report.matrix import find_ends
from sameweights.report.page import make_environment, write_text
from sameweights.report.split import read_split
from sameweights.report.tables import read_meta, read_rows
from sameweights.report.wording import short

SCRIPTS = ("theme.js", "items.js")
INDEX = "index.html"
TABLE = "changed.parquet"


def write_all_items(warehouse: Path, attribution: Path | None, assets: Path, out: Path) -> Path:
    """Write every changed answer of the report's model and seed; returns the index page.

    A page holds consecutive items of one task with at most MAX_ITEMS answers (an item with more has
    a page of its own). Pages of an earlier call are replaced. Raises UserError.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("[0-9]*.html"):
        old.unlink()
    labels = label_items((read_split(attribution) or {}).get("classes"))
    with open_warehouse(warehouse) as db:
        meta = read_meta(db)
        ends = find_ends(
            list(read_rows(db, "SELECT * FROM cells ORDER BY model, seed")),
            meta["reference"],
            meta["target"],
        )
        if not ends:
            raise UserError(f"{warehouse}: no model and seed has both cells of the comparison")
        changed = find_changed(db, *ends[0])
        named = [(f"{n:05}.html", part) for n, part in enumerate(changed.parts(MAX_ITEMS), 1)]
        shared = {"reference": changed.reference, "total": changed.total, "parts": named}
        for name, part in named:
            laid = lay_out(changed, changed.read_part(part))
            for item in laid["items"]:
                item["class"] = labels.get((item["task"], item["doc_id"]))
            laid |= {"total": part.answers, "target": short(changed.target)}
            _write_page(out / name, assets, {**shared, "part": part, "changed": laid}, SCRIPTS)
        changed.write_parquet(str(out / TABLE))
    # Written last: what the index names is there.
    _write_page(out / INDEX, assets, {**shared, "part": None}, SCRIPTS[:1])
    return out / INDEX


def _write_page(path: Path, assets: Path, context: dict[str, Any], names: tuple[str, ...]) -> None:
    scripts = [wrap_script((assets / name).read_text(encoding="utf-8")) for name in names]
    page = (
        make_environment(assets)
        .get_template("item-page.html.j2")
        .render(
            **context,
            style=(assets / "style.css").read_text(encoding="utf-8"),
            scripts=scripts,
            policy=policy(scripts),
            dump_json=dump_json,
        )
    )
    write_text(path, page)
