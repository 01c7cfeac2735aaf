"""The report: tables in, one HTML file out, offline and with everything escaped."""

from sameweights.report.page import build_report, render_markdown

__all__ = ["build_report", "render_markdown"]
