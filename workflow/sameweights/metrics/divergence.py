"""Where generated answers part: index of the first differing token, and the margin there."""

from __future__ import annotations

from sameweights.metrics import Metric

INDEX = "first_difference(i.token_ids, j.token_ids)"

MARGIN = f"""CASE
       WHEN i.token_ids IS NOT NULL AND j.token_ids IS NOT NULL THEN i.margins[{INDEX} + 1]
       WHEN i.answer_tokens IS DISTINCT FROM j.answer_tokens THEN i.margin END"""
"""In nats, of the first run; a choice that differs counts with the margin of its choice."""

METRICS = [
    Metric("mean_divergence_index", INDEX, "mean"),
    Metric("mean_margin_at_divergence", MARGIN, "mean"),
]
