"""Bitwise equality: share of items all of whose logits have the same bytes in both runs."""

from __future__ import annotations

from sameweights.metrics import Metric

METRICS = [Metric("bitwise_equal_logits", "(i.logits_sha256 = j.logits_sha256)::INT", "share")]
"""Over the items whose backend gives the hash in both runs."""
