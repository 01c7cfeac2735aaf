"""The report: tables in, one HTML file out, offline and with everything escaped."""

from sameweights.report.all_items import write_all_items
from sameweights.report.page import build_report, read_context, render_markdown
from sameweights.report.plots import write_plots

__all__ = ["build_report", "read_context", "render_markdown", "write_all_items", "write_plots"]
