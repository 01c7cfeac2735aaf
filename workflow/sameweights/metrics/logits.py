"""Bitwise equality: share of items all of whose logits have the same bytes in both runs."""

from __future__ import annotations

from sameweights.metrics import Pair, Statistic, proportion


def measure(pair: Pair) -> list[Statistic]:
    """Return bitwise_equal_logits over the items whose backend gives the hash in both runs."""
    known = pair.items.drop_nulls(["logits", "logits_b"])
    return [proportion("bitwise_equal_logits", (known["logits"] == known["logits_b"]).to_numpy())]
