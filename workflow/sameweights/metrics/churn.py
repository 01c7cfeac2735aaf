"""Churn: share of items whose answer differs, by tokens, by text and as extracted."""

from __future__ import annotations

from sameweights.metrics import Pair, Statistic, proportion

LEVELS = ("tokens", "text", "extracted")


def measure(pair: Pair) -> list[Statistic]:
    """Return churn_<level> for the three levels."""
    return [
        proportion(
            f"churn_{level}",
            pair.items.select(
                changed=pair.items[f"answer_{level}"].ne_missing(pair.items[f"answer_{level}_b"])
            )["changed"].to_numpy(),
        )
        for level in LEVELS
    ]
