"""The page as a whole: tolerates absence, escapes what is hostile, refuses what is broken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from synthetic_results import MODEL, Scenario, write_attribution, write_results

from sameweights.compare import compare_cells
from sameweights.errors import UserError
from sameweights.report import build_report
from sameweights.report.matrix import MAX_SCORES, group_holes, list_scores
from sameweights.warehouse import build_warehouse


def build(folder: Path, root: Path, attribution: Path | None) -> tuple[str, str, str]:
    outputs = tuple(folder / name for name in ("report.html", "report.md", "verdict.txt"))
    build_report(folder / "w.duckdb", folder / "c.parquet", attribution, root / "report", *outputs)
    return tuple(path.read_text() for path in outputs)  # type: ignore[return-value]


def strip_scripts(html: str) -> str:
    return re.sub(r"<script.*?</script>", "", html, flags=re.S)


def prepare(folder: Path) -> Path:
    build_warehouse(folder, folder / "w.duckdb")
    compare_cells(folder / "w.duckdb", folder / "c.parquet")
    return folder


def test_page_without_attribution_says_so(tmp_path: Path, root: Path) -> None:
    html, _, verdict = build(prepare(write_results(tmp_path, Scenario(n=12))), root, None)
    assert "<p>Not computed.</p>" in html and "By cause: not computed." in verdict


def test_refused_attribution_shows_its_reason(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "attribution.json"
    path.write_text(json.dumps({"error": "cell <b> was stopped"}))
    html, markdown, _ = build(prepare(write_results(tmp_path, Scenario(n=12))), root, path)
    assert "Not computed: cell &lt;b&gt; was stopped" in html
    assert "cell &lt;b&gt; was stopped" in markdown and "<b>" not in markdown


def test_absent_or_broken_attribution_leaves_the_page_whole(tmp_path: Path, root: Path) -> None:
    prepare(write_results(tmp_path, Scenario(n=12)))
    path = tmp_path / "attribution.json"
    html, _, verdict = build(tmp_path, root, path)
    assert "Not computed: there is no attribution.json" in html
    assert "By cause: not computed (there is no attribution.json)." in verdict
    path.write_text('{"outcomes": {"<b>')
    html, _, _ = build(tmp_path, root, path)
    assert "Not computed: attribution.json is not JSON" in html
    assert 'id="chart-churn_delta"' in html and str(tmp_path) not in html


def test_page_without_a_measured_target_is_a_refusal(tmp_path: Path, root: Path) -> None:
    write_results(tmp_path, Scenario(n=6))
    for path in tmp_path.glob("cells/toy/dev-b/torch/w8a16/s0/r*/*"):
        path.unlink()
    html, _, verdict = build(prepare(tmp_path), root, None)
    assert verdict.startswith("No verdict: dev-b/torch/w8a16 gave no results. Reason: no run.json")
    assert ">missing</b>" in html


def test_device_note_and_hole_are_escaped_and_shown(tmp_path: Path, root: Path) -> None:
    write_results(tmp_path, Scenario(n=6, note="one <i>machine</i>"))
    html, markdown, _ = build(prepare(tmp_path), root, None)
    assert "one &lt;i&gt;machine&lt;/i&gt;" in html and "takes &lt;too&gt; long" in html
    assert "(dev-a, dev-b, dev-c)" in html
    assert "one &lt;i&gt;machine&lt;/i&gt;" in markdown


def test_page_loads_nothing_and_has_no_inline_handler(tmp_path: Path, root: Path) -> None:
    write_results(tmp_path, Scenario(n=12))
    html, _, _ = build(prepare(tmp_path), root, None)
    markup = strip_scripts(html)
    assert not re.search(r"\son\w+=|javascript:|\ssrc=|<link|@import|url\(", markup)
    assert set(re.findall(r'href="(.)', markup)) == {"#"}


def test_every_number_of_the_split_is_on_the_page(tmp_path: Path, root: Path) -> None:
    prepare(write_results(tmp_path, Scenario(n=12)))
    (tmp_path / "warehouse.duckdb").symlink_to(tmp_path / "w.duckdb")
    html, _, _ = build(tmp_path, root, write_attribution(tmp_path))
    split = json.loads((tmp_path / "attribution.json").read_bytes())
    for term in split["outcomes"]["score"]["headline"]:
        assert f"<td>{term['name']}</td>" in html
    for entry in split["classes"]["counts"]:
        assert f'<td>{entry["name"]}</td><td class="num">{entry["items"]}</td>' in html
    assert "built-in method" not in strip_scripts(html)
    assert split["mechanism"]
    for pair in split["mechanism"]:
        row = html[html.index(f"<td>{pair['player']}</td><td><code>") :].split("</tr>")[0]
        assert f">{pair['observed_flips']}</button>" in row
        assert f">{pair['predicted_flips']:.1f}</button>" in row
    assert sum(pair["observed_flips"] for pair in split["mechanism"]) > 0
    assert "Fair shares" in html and "Items by what changes their answer" in html


def test_other_models_get_their_own_verdict(tmp_path: Path, root: Path) -> None:
    write_results(tmp_path, Scenario(n=6))
    matrix = json.loads((tmp_path / "matrix.json").read_bytes())
    twins = [
        {
            **cell,
            "cell": cell["cell"].replace("/s0", "/s1"),
            "seed": 1,
            "path": cell["path"].replace("/s0", "/s1"),
        }
        for cell in matrix["cells"]
    ]
    matrix["cells"] += twins
    (tmp_path / "matrix.json").write_text(json.dumps(matrix))
    for name in ("s0.parquet", "s0.docs.parquet"):
        source = tmp_path / "requests" / MODEL / name
        source.with_name(name.replace("s0", "s1")).write_bytes(source.read_bytes())
    html, _, _ = build(prepare(tmp_path), root, None)
    assert "1 more models or seeds" in html
    assert "<code>toy/dev-b/torch/w8a16/s1</code>: <b>No verdict" in html


def test_matrix_without_both_ends_is_an_error(tmp_path: Path, root: Path) -> None:
    write_results(tmp_path, Scenario(n=6))
    matrix = json.loads((tmp_path / "matrix.json").read_bytes())
    (tmp_path / "matrix.json").write_text(json.dumps({**matrix, "target": "x/y/z"}))
    with pytest.raises(UserError, match=r"has both cells.*'dev-a/torch/bf16' and 'x/y/z'"):
        build(prepare(tmp_path), root, None)


def test_holes_of_one_reason_are_named_together() -> None:
    cells = [{"cell": f"m/d{n}/b/p/s0", "state": "excluded", "reason": "no cap"} for n in range(6)]
    cells.insert(2, {"cell": "m/x/b/p/s0", "state": "stopped", "reason": "canary"})
    cells.append({"cell": "m/y/b/p/s0", "state": "complete", "reason": None})
    excluded, stopped = group_holes(cells)
    assert excluded["cells"] == [f"m/d{n}/b/p/s0" for n in range(6)]
    assert stopped == {"state": "stopped", "reason": "canary", "cells": ["m/x/b/p/s0"]}


def test_scores_of_the_compared_cells_stay_when_not_all_fit() -> None:
    few = [{"cell": f"m/d{n}/b/p/s0", "scores": [{}] * (n % 3)} for n in range(9)]
    assert list_scores(few, []) == (few, 0)
    cells = [{"cell": f"m/d{n}/b/p/s0", "scores": [{}] * 10} for n in range(MAX_SCORES)]
    ends = ("m/d5/b/p/s0", cells[-1]["cell"])
    shown, left_out = list_scores(cells, [ends])
    assert sum(len(cell["scores"]) for cell in shown) == MAX_SCORES
    assert left_out == MAX_SCORES - len(shown) and set(ends) <= {cell["cell"] for cell in shown}
    assert shown == [cell for cell in cells if cell in shown]


def test_a_task_without_any_compared_item_leaves_the_page_whole(tmp_path: Path, root: Path) -> None:
    prepare(write_results(tmp_path, Scenario(n=6, broken=("dev-b/w8a16",))))
    (tmp_path / "warehouse.duckdb").symlink_to(tmp_path / "w.duckdb")
    html, _, _ = build(tmp_path, root, write_attribution(tmp_path))
    flips = html.split('data-csv="flips"')[1].split("</tbody>")[0]
    assert "<td>choice</td>" in flips and "<td>arith</td>" not in flips
    tasks = html.split('data-csv="pairs-by-task"')[1].split("</tbody>")[0]
    assert "0 of 6" in tasks
