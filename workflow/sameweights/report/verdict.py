"""The verdict: one plain sentence with the numbers, or what cannot be said."""

from __future__ import annotations

from typing import Any

Rows = list[dict[str, Any]]


def find(rows: Rows, cell_a: str, cell_b: str, statistic: str) -> dict[str, Any] | None:
    """Return the comparison row over all tasks of one pair."""
    for row in rows:
        pair = (row["cell_a"], row["cell_b"]) == (cell_a, cell_b)
        if pair and row["task"] == "all" and row["statistic"] == statistic:
            return row
    return None


def say_verdict(rows: Rows, reference: str, target: str, reasons: dict[str, str]) -> str:
    """Say whether the drop is real and how many answers changed; a refusal names its reason.

    `reasons`: cell -> why it has no numbers.
    """
    for cell in (reference, target):
        if cell in reasons:
            return f"No verdict: {cell} has no results ({reasons[cell]})."
    delta = find(rows, reference, target, "delta")
    churn = find(rows, reference, target, "churn_tokens")
    if delta is None or churn is None or delta["lo"] is None:
        return f"No verdict: {reference} and {target} were not compared."
    real = delta["lo"] > 0 or delta["hi"] < 0
    floor = churn["noise_floor"]
    noise = (
        "replicates of one cell never differ"
        if floor == 0
        else f"replicates of one cell differ on {percent(floor)}"
        if floor is not None
        else "the noise floor is unknown (no replicates)"
    )
    return (
        f"From {short(reference)} to {short(target)} the score changes by "
        f"{points(delta['estimate'])} points [{points(delta['lo'])}, {points(delta['hi'])}] on "
        f"{delta['n']} items, which {'is more than' if real else 'may be'} chance, while "
        f"{percent(churn['estimate'])} of the answers change "
        f"[{percent(churn['lo'])}, {percent(churn['hi'])}]; {noise}."
    )


def short(cell: str) -> str:
    """device/backend/precision of a cell id."""
    return "/".join(cell.split("/")[1:4])


def points(value: float | None) -> str:
    """A difference of shares in points with its sign."""
    return "–" if value is None else f"{100 * value:+.1f}"


def percent(value: float | None) -> str:
    """A share in percent."""
    return "–" if value is None else f"{100 * value:.1f}%"
