"""Size of a report, and how long Chromium takes to draw all of its charts.

    python benchmarks/report_drawing.py results/smoke/report.html

Opens the file from disk with the network off, five times in a fresh browser context, and prints
the bytes and the median time from the start of the navigation until every chart holds its drawing.
Exits 1 when either is over its target. Needs Chromium of the system and Playwright.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

MAX_BYTES = 3_000_000
MAX_S = 1.5
RUNS = 5

WATCH = """
const isDrawn = () => {
  const places = [...document.querySelectorAll('.chart')];
  return document.readyState !== 'loading' && places.length > 0
    && places.every((place) => place.querySelector('svg'));
};
const watch = () => {
  if (isDrawn()) window.drawnMs = performance.now(); else requestAnimationFrame(watch);
};
watch();
"""
"""Runs in the page before its own scripts; the page's clock starts with the navigation."""


def measure(browser: Any, page: Path) -> float:
    """Seconds until all charts are drawn, in a context without anything cached."""
    context = browser.new_context(offline=True, viewport={"width": 1600, "height": 900})
    context.add_init_script(WATCH)
    tab = context.new_page()
    tab.goto(page.as_uri())
    drawn_ms: float = tab.wait_for_function("window.drawnMs", timeout=60_000).json_value()
    context.close()
    return drawn_ms / 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("report", type=Path)
    parser.add_argument("--chromium", type=Path, default=Path("/usr/bin/chromium"))
    chosen = parser.parse_args()
    report = chosen.report.resolve(strict=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(chosen.chromium), args=["--no-sandbox", "--disable-gpu"]
        )
        charts_s = [measure(browser, report) for _ in range(RUNS)]
        browser.close()
    size, drawn_s = report.stat().st_size, statistics.median(charts_s)
    every = ", ".join(f"{seconds:.2f}" for seconds in charts_s)
    print(f"size   {size / 1e6:5.2f} MB, target {MAX_BYTES / 1e6:g} MB")
    print(f"drawn  {drawn_s:5.2f} s, target {MAX_S:g} s (median of {every})")
    sys.exit(size > MAX_BYTES or drawn_s > MAX_S)


if __name__ == "__main__":
    main()
