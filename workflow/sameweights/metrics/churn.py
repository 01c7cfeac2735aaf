"""Churn: share of items whose answer differs, by tokens, by text and as extracted."""

from __future__ import annotations

from sameweights.metrics import Metric

METRICS = [
    Metric(
        f"churn_{level}",
        # A missing extraction is another answer, not a hole.
        f"(i.answer_{level} IS DISTINCT FROM j.answer_{level})::INT",
        "share",
    )
    for level in ("tokens", "text", "extracted")
]
