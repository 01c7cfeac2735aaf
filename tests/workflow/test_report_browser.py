"""The report in a real browser, from disk, offline: no error, no breach, hostile text as text."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sameweights.compare import compare_cells
from sameweights.report import build_report, write_all_items
from sameweights.warehouse import build_warehouse

sys.path.insert(0, str(Path(__file__).parent.parent / "unit/report"))
from synthetic_results import REFERENCE, TARGET, Scenario, write_attribution, write_results

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = {
    1: "<script>window.hacked = 1</script>",
    2: "</script><img src=x onerror='window.hacked = 2'>",
    4: "line\u2028separator\u2029and \ud800 alone",
    5: "\u202eright to left: مرحبا",
    7: "NaN",
    8: "long " * 200_000,
    10: "unbroken" * 400,
}
LONG = {
    "dev-a": "board-with-a-name-in-full-8gb-maxn-super-lpddr5-102gbps",
    "dev-b": "cloud_host_with_a_name_as_long_as_a_line_and_nowhere_to_break_it",
    "arith": "task_with_a_name_of_several_words_and_an_unbroken_tail",
}
"""Longer names for the page; scripts name none of them, so that their hashes stay."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    folder = tmp_path_factory.mktemp("report")
    prompts = {1: "</script><script>window.hacked = 3</script>"}
    write_results(folder, Scenario(n=30, texts=HOSTILE, prompts=prompts))
    warehouse, comparison = folder / "warehouse.duckdb", folder / "comparison.parquet"
    build_warehouse(folder, warehouse)
    compare_cells(warehouse, comparison)
    attribution = write_attribution(folder)
    page = folder / "report.html"
    outputs = (page, folder / "report.md", folder / "verdict.txt")
    build_report(warehouse, comparison, attribution, root / "report", *outputs)
    write_all_items(warehouse, attribution, root / "report", folder / "report-items")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield running
        running.close()


class View:
    """A page with what went wrong on it: console messages, errors, requests to elsewhere."""

    def __init__(
        self,
        browser: Any,
        report: Path,
        fragment: str = "",
        ready: str = "#chart-churn_delta svg",
        **options: Any,
    ) -> None:
        self.context = browser.new_context(offline=True, **options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._note_request)
        self.page.goto(f"file://{report}{fragment}")
        self.page.wait_for_selector(ready)

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(("file://", "data:", "blob:")):
            self.problems.append(f"request to {request.url}")

    def texts(self, selector: str) -> list[str]:
        return list(self.page.locator(selector).all_inner_texts())


@pytest.fixture
def view(browser: Any, report: Path) -> Iterator[View]:
    opened = View(browser, report)
    yield opened
    assert opened.problems == []
    opened.context.close()


def open_all(view: View) -> None:
    while view.page.locator("#more").is_visible():
        view.page.click("#more")
    # An item fills itself, with further details in it, when it is opened.
    view.page.wait_for_function(
        """() => {
            const all = [...document.querySelectorAll('details')];
            const closed = all.filter((d) => !d.open || d.children.length < 2);
            closed.forEach((d) => { d.open = true; });
            return closed.length === 0;
        }"""
    )


def test_the_answer_is_the_first_heading(view: View) -> None:
    heading = view.texts("h1, h2, h3")[0]
    assert re.search(r"^(The drop|The gain|No evidence)", heading)
    assert "not a machine of its own" in view.texts(".note")[0]
    assert view.page.locator(".chart svg").count() == view.page.locator(".chart").count()


def test_every_chart_has_its_numbers_in_a_table(view: View) -> None:
    charts = view.page.locator(".chart").evaluate_all("all => all.map((c) => c.id.slice(6))")
    tables = {
        "waterfall_score": "attribution",
        "waterfall_churn_tokens": "attribution",
        "churn_delta": "points",
        "margins": "margins",
        "flips_task": "flips",
        "flips_class": "flips",
        "divergence": "divergence",
        "positions": "gaps",
        "gaps": "gaps",
        "agreement_differs": "agreement",
        "agreement_kld": "agreement",
    }
    assert set(charts) == set(tables)
    for name in tables.values():
        assert view.page.locator(f"table[data-csv={name}] tbody tr").count() > 0
    # Four measured cells make six pairs, one point and one row each.
    assert view.page.locator("table[data-csv=points] tbody tr").count() == 6
    counts = view.page.locator("table[data-csv=margins] td.num:nth-child(3)").all_text_contents()
    shown = "JSON.parse(document.getElementById('changed-data').textContent).items"
    target = view.page.evaluate(
        f"{shown}.filter((item) => item.cell === 'dev-b/torch/w8a16').length"
    )
    assert 0 < sum(map(float, counts)) <= target


def test_policy_blocks_what_the_page_did_not_bring(browser: Any, report: Path) -> None:
    view = View(browser, report)
    view.page.evaluate(
        """() => { const s = document.createElement('script');
                   s.textContent = 'window.hacked = 9'; document.body.append(s); }"""
    )
    assert view.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in problem for problem in view.problems)
    view.context.close()


def test_hostile_answers_are_text(view: View) -> None:
    view.page.select_option("select[name=cell]", "dev-b/torch/w8a16")
    view.page.select_option("select[name=task]", "arith")
    open_all(view)
    shown = "\n".join(view.page.locator("#item-list pre").all_text_contents())
    for doc_id in (1, 2, 5, 7):
        assert HOSTILE[doc_id] in shown
    assert "\u2028separator\u2029and \\ud800 alone" in shown
    assert "</script><script>window.hacked = 3</script>" in shown
    assert "more characters" in shown and len(shown) < 200_000
    assert view.page.evaluate("window.hacked") is None
    assert view.page.locator("#item-list script, #item-list img").count() == 0


def test_page_is_small(report: Path) -> None:
    assert report.stat().st_size < 3_000_000


def test_filters_narrow_the_list_and_the_link_restores_it(
    view: View, browser: Any, report: Path
) -> None:
    view.page.select_option("select[name=cell]", "")
    everything = int(view.texts("#count")[0].split()[0])
    view.page.select_option("select[name=cell]", "dev-a/torch/w8a16")
    view.page.select_option("select[name=kind]", "lost")
    count = int(view.texts("#count")[0].split()[0])
    assert 0 < count < everything
    open_all(view)
    badges = view.texts("#item-list .badge")
    assert badges == ["lost"] * count
    again = View(browser, report, "#" + view.page.url.partition("#")[2])
    assert again.texts("#count") == view.texts("#count")
    again.context.close()


def test_items_are_found_by_direction_difference_and_class(
    view: View, browser: Any, report: Path
) -> None:
    view.page.click("#clear")
    everything = int(view.texts("#count")[0].split()[0])
    item = view.page.evaluate(
        """() => JSON.parse(document.getElementById('changed-data').textContent).items
            .find((item) => item.kind === 'both wrong' && item.class)"""
    )
    for name in ("kind", "level", "class"):
        view.page.select_option(f"select[name={name}]", item[name])
    count = int(view.texts("#count")[0].split()[0])
    assert 0 < count < everything
    open_all(view)
    cards = view.texts("#item-list details.item")
    assert len(cards) == count
    for words in ("both wrong", "differs in its", f"changed by: {item['class']} ·"):
        assert all(words in card for card in cards)
    again = View(browser, report, "#" + view.page.url.partition("#")[2])
    assert again.texts("#count") == view.texts("#count")
    again.context.close()
    view.page.click("#clear")
    view.page.wait_for_function(
        "wanted => document.getElementById('count').textContent.startsWith(`${wanted} items`)",
        arg=everything,
    )


def test_every_kind_of_hole_is_drawn_differently(view: View) -> None:
    styles = view.page.evaluate(
        """() => ['stopped', 'excluded', 'failed', 'refused', 'missing'].map((state) => {
            const cell = document.querySelector('td.hole').cloneNode(true);
            cell.className = `hole ${state}`;
            document.querySelector('#matrix tbody tr').append(cell);
            const sign = getComputedStyle(cell.querySelector('b'), '::before').content;
            const { backgroundImage, borderStyle } = getComputedStyle(cell);
            cell.remove();
            return [sign, backgroundImage + borderStyle];
        })"""
    )
    assert all(len(set(column)) == 5 for column in zip(*styles, strict=True))


def test_link_to_an_item_puts_it_first(view: View, browser: Any, report: Path) -> None:
    open_all(view)
    link = view.page.locator("#item-list details.item a").nth(5)
    summary = view.texts("#item-list details.item > summary")[5]
    again = View(browser, report, link.get_attribute("href"))
    assert again.texts("#item-list details.item > summary")[0] == summary
    again.context.close()


def test_first_divergent_token_is_marked_with_both_candidates(view: View) -> None:
    view.page.select_option("select[name=task]", "arith")
    first = view.page.locator("#item-list details.item").first
    assert first.locator("mark").count() == 2
    assert "margin" in first.locator("summary").first.inner_text()
    rows = first.locator(".scroll table tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["likeliest", "second"]
    assert all(row.count("%") == 2 for row in rows)


def test_a_cell_of_the_matrix_leads_to_its_items_by_keyboard(view: View) -> None:
    cell = view.page.locator("button.open-cell[data-cell='dev-b/torch/bf16']")
    cell.focus()
    view.page.keyboard.press("Enter")
    view.page.wait_for_function("location.hash.includes('cell=')")
    assert view.page.input_value("select[name=cell]") == "dev-b/torch/bf16"


def test_holes_say_why(view: View) -> None:
    holes = " ".join(view.texts("#matrix td.hole"))
    assert "canary: 4.2 nats" in holes and "takes <too> long" in holes
    assert "29 of 30" not in holes and "59 of 60 items" in " ".join(view.texts("#matrix td"))


@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_the_width_in_both_themes(browser: Any, report: Path, width: int, scheme: str) -> None:
    view = View(browser, report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    before = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (before == "rgb(255, 255, 255)") == (scheme == "light")
    view.page.click("#theme")
    assert view.page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert view.problems == []
    view.context.close()


@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_is_wider_than_the_window_with_all_details_open(
    browser: Any, report: Path, width: int
) -> None:
    text = report.read_text()
    for name, long in LONG.items():
        text = text.replace(name, long)
    page = report.with_name("long.html")
    page.write_text(text)
    view = View(browser, page, viewport={"width": width, "height": 900})
    view.page.click("#clear")
    open_all(view)
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # What is wider than its place scrolls there, and nothing else is cut off at the right.
    cut = view.page.evaluate(
        """() => [...document.querySelectorAll('body *:not(script)')].filter((node) => {
            const scrolls = node.closest('.scroll, pre, .chart, #number');
            const { right } = node.getBoundingClientRect();
            return !scrolls && node.checkVisibility() && right > innerWidth + 1;
        }).map((node) => node.outerHTML.slice(0, 200))"""
    )
    assert cut == []
    assert view.problems == []
    view.context.close()


def test_words_of_a_table_stay_whole_on_a_narrow_screen(browser: Any, report: Path) -> None:
    view = View(browser, report, viewport={"width": 360, "height": 900})
    view.page.select_option("select[name=task]", "arith")
    open_all(view)
    # A word that is not broken has one box; `likeliest` once stood there letter by letter.
    boxes = view.page.locator("#item-list table.narrow td:first-child").evaluate_all(
        """all => all.map((cell) => { const range = document.createRange();
            range.selectNodeContents(cell); return range.getClientRects().length; })"""
    )
    assert boxes and set(boxes) == {1}
    heads = view.page.locator("#trust td[data-head]").evaluate_all(
        "all => all.map((cell) => getComputedStyle(cell, '::before').content)"
    )
    assert set(heads) == {f'"{REFERENCE}"', f'"{TARGET}"'}
    name = view.page.locator("#pairs .scroll td:first-child").first
    before = name.bounding_box()
    view.page.locator("#pairs .scroll").first.evaluate("node => { node.scrollLeft = 200; }")
    assert name.bounding_box() == before, "the row's name stays while its numbers scroll"
    view.context.close()


def test_table_downloads_as_csv(view: View) -> None:
    with view.page.expect_download() as waiting:
        view.page.locator("#pairs .csv").first.click()
    lines = Path(waiting.value.path()).read_text().splitlines()
    assert lines[0].startswith('"cell","score, points"')
    assert len(lines) == 4 and lines[1].startswith('"dev-')


def test_prints(view: View) -> None:
    view.page.emulate_media(media="print")
    assert not view.page.locator("nav").is_visible()
    assert view.page.pdf()[:4] == b"%PDF"
    assert view.page.locator("details.item:not([open])").count() == 0
    assert view.page.locator("details.item .answers").count() == 20


def test_prints_every_detail_and_cuts_nothing(browser: Any, report: Path, tmp_path: Path) -> None:
    """On A4 across, less its margins: 273 mm are 1,032 pixels, 186 mm are 703."""
    view = View(browser, report, viewport={"width": 1032, "height": 703}, color_scheme="dark")
    view.page.emulate_media(media="print")
    # Nothing was opened yet, as without scripts; the style alone unfolds what there is.
    closed = view.page.locator("details:not([open]) table").first
    assert closed.is_visible()
    file = tmp_path / "report.pdf"
    view.page.pdf(path=file, prefer_css_page_size=True)
    assert view.page.locator("details:not([open])").count() == 0
    prompts = view.page.locator("details.item details:has(summary:text-is('prompt')) pre")
    assert prompts.count() == 20 and all(prompts.all_text_contents())
    for hidden in ("nav", "button.csv", "#filters select", "#clear", "#more", "a:text('link to')"):
        assert view.page.locator(hidden).filter(visible=True).count() == 0
    found = view.page.evaluate(
        """() => [...document.querySelectorAll('.chart svg, table, pre, .answers')].map((node) => {
            const { right, height } = node.getBoundingClientRect();
            return [node.className.baseVal ?? node.className, right, height, node.tagName]; })"""
    )
    assert len(found) > 60 and [one for one in found if one[1] > 1033] == []
    # A chart that fits a page is never cut, since figures do not break.
    assert all(height < 703 for _, _, height, tag in found if tag == "svg")
    breaks = view.page.locator("figure").evaluate_all(
        "all => all.map((figure) => getComputedStyle(figure).breakInside)"
    )
    assert set(breaks) == {"avoid"}
    if shutil.which("pdftotext"):
        command = ["pdftotext", "-layout", str(file), "-"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for words in ("Fair shares", "Question 24 of arith?", "sameweights attribute"):
            assert words in text
        for words in ("clear filters", "link to this item", "show 1 more", "whose fault"):
            assert words not in text
    view.context.close()


def test_prints_dark_ink_on_white_from_the_dark_theme(browser: Any, report: Path) -> None:
    view = View(browser, report, color_scheme="dark")
    view.page.emulate_media(media="print", color_scheme="dark")
    colours = view.page.evaluate(
        """() => { const page = getComputedStyle(document.body);
                   const label = document.querySelector('.chart svg text');
                   return [page.color, page.backgroundColor, getComputedStyle(label).fill]; }"""
    )
    ink = "rgb(26, 28, 32)"
    assert colours == [ink, "rgb(255, 255, 255)", ink]
    view.context.close()


def test_verdict_names_both_ends(report: Path) -> None:
    verdict = (report.parent / "verdict.txt").read_text()
    assert verdict.count("\n") == 1 and REFERENCE in verdict and TARGET in verdict


def test_a_number_leads_to_its_rows_by_keyboard(view: View) -> None:
    number = view.page.locator("dl.facts button.number").nth(3)
    number.focus()
    view.page.keyboard.press("Enter")
    assert view.page.locator("#number").is_visible()
    facts = view.page.locator("#number-facts").text_content()
    assert "noise floor" in facts and "n = " in facts and "interval" in facts
    sql = view.page.locator("#number-sql").text_content()
    assert sql.startswith("SELECT *, churn_tokens AS value\nFROM paired_items('toy/")
    view.page.keyboard.press("Enter")
    view.page.wait_for_function("document.getElementById('number-said').textContent !== ''")
    view.page.keyboard.press("Escape")
    assert view.page.locator("#number").is_hidden()
    assert number.evaluate("node => node === document.activeElement")
    assert view.problems == []


FOCUSED = """() => { const node = document.activeElement;
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    return { name: `${node.tagName} ${node.id || node.className} ${node.textContent.slice(0, 40)}`,
             seen: box.bottom > 0 && box.top < innerHeight
                   && box.right > 0 && box.left < innerWidth,
             ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 }; }"""


def focused(view: View) -> dict[str, Any]:
    """What has the keyboard; its place is on the screen and shown by a ring."""
    found: dict[str, Any] = view.page.evaluate(FOCUSED)
    assert found["seen"] and found["ring"], found
    return found


def tab_to(view: View, selector: str) -> None:
    """Press Tab until an element that the selector names has the keyboard."""
    here = "selector => document.activeElement.matches(selector)"
    for _ in range(400):
        view.page.keyboard.press("Tab")
        if view.page.evaluate(here, selector):
            focused(view)
            return
    raise AssertionError(f"Tab does not lead to {selector}")


def test_the_first_tab_leads_to_the_verdict(view: View) -> None:
    view.page.keyboard.press("Tab")
    assert "to the verdict" in focused(view)["name"]
    view.page.keyboard.press("Enter")
    assert view.page.evaluate("document.activeElement.id") == "verdict"


def test_from_the_heat_map_to_the_rows_by_keyboard_alone(view: View) -> None:
    press = view.page.keyboard.press
    tab_to(view, "button.open-cell[data-cell='dev-a/torch/w8a16']")
    press("Enter")
    view.page.wait_for_function("document.activeElement.matches('#items h2')")
    tab_to(view, "select[name=cell]")
    assert view.page.input_value("select[name=cell]") == "dev-a/torch/w8a16"
    press("End")  # The last pair; choosing it keeps the keyboard where it is.
    view.page.wait_for_function("location.hash.includes('dev-b')")
    assert "SELECT" in focused(view)["name"]
    tab_to(view, "details.item:not([open]) > summary")
    press("Enter")
    item = view.page.locator("details.item[open]:has(> summary:focus)")
    item.locator("table").wait_for()
    assert "likeliest" in item.inner_text() or "choice" in item.inner_text()
    focused(view)
    tab_to(view, "details.item summary:not(.item > summary)")
    press("Enter")
    assert view.page.locator("details[open] > summary:focus + pre").is_visible()
    tab_to(view, "#more")
    shown = view.page.locator("details.item").count()
    press("Enter")
    index = "[...document.querySelectorAll('.item > summary')].indexOf(document.activeElement)"
    assert view.page.evaluate(index) == shown
    tab_to(view, "#replicates button.number")
    opener = view.page.evaluate_handle("document.activeElement")
    press("Enter")
    assert view.page.locator("#number").is_visible() and "BUTTON" in focused(view)["name"]
    press("Escape")
    assert view.page.locator("#number").is_hidden()
    assert opener.evaluate("node => node === document.activeElement")
    focused(view)


def test_everything_to_click_is_reached_by_tab(view: View) -> None:
    reach = "a[href], button:not(:disabled), select, summary"
    wanted = view.page.evaluate(
        f"""() => {{ const all = [...document.querySelectorAll("{reach}")];
            window.missed = new Set(all.filter((node) => node.checkVisibility()));
            document.body.addEventListener('focusin', ({{ target }}) => missed.delete(target));
            return missed.size; }}"""
    )
    assert wanted > 100
    for _ in range(2 * wanted):
        view.page.keyboard.press("Tab")
        if view.page.evaluate("missed.size") == 0:
            break
    left = view.page.evaluate("[...missed].map((node) => node.outerHTML.slice(0, 120))")
    assert left == []


def test_charts_say_what_they_show(view: View) -> None:
    charts = view.page.locator(".chart").evaluate_all(
        "all => all.map((c) => [c.getAttribute('role'), c.getAttribute('aria-label')])"
    )
    specs = "JSON.parse(document.getElementById('chart-data').textContent).specs"
    described = view.page.evaluate(f"Object.values({specs}).map((spec) => spec.description)")
    assert {role for role, _ in charts} == {"graphics-document"}
    assert sorted(label for _, label in charts) == sorted(described) and all(described)


def test_pages_of_all_items_open_from_disk(browser: Any, report: Path) -> None:
    view = View(browser, report.parent / "report-items/index.html", ready="table a")
    view.page.click("table a >> nth=0")
    view.page.wait_for_selector("details.item")
    open_all(view)
    text = view.page.inner_text("#item-list")
    assert HOSTILE[1] in text and HOSTILE[2] in text
    assert view.page.evaluate("window.hacked") is None
    view.page.click("text=link to this item >> nth=3")
    assert "item=arith" in view.page.url and len(view.texts("details.item[open]")) > 0
    view.page.click("text=the report")
    view.page.wait_for_selector("#verdict")
    assert view.problems == []
    view.context.close()
