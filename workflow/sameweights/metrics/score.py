"""Scores of both cells, their paired difference, and the flips both ways."""

from __future__ import annotations

from sameweights.metrics import Metric

METRICS = [
    Metric("score_a", "i.value", "score"),
    Metric("score_b", "j.value", "score"),
    Metric("delta", "j.value - i.value", "difference"),
    Metric("right_to_wrong", "(i.value = 1 AND j.value = 0)::INT", "share", binary=True),
    Metric("wrong_to_right", "(i.value = 0 AND j.value = 1)::INT", "share", binary=True),
    Metric("mcnemar_mid_p", "j.value - i.value", "test", binary=True),
]
"""McNemar's test takes the sign of each item's mean difference over replicates."""
