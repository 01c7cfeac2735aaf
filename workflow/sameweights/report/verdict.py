"""The verdict: the answer first, then its numbers, then the cause - or what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sameweights.report.advice import Hole, advise_end, advise_next
from sameweights.report.tables import Comparison, Row
from sameweights.report.wording import bracket, percent, points, short


@dataclass(frozen=True)
class Verdict:
    """`headline` answers in a few words; `detail` gives the numbers; `cause` splits them."""

    headline: str
    detail: str
    cause: str

    @property
    def line(self) -> str:
        """All of it in one line, for a terminal."""
        return " ".join(part for part in (self.headline, self.detail, self.cause) if part)


def say_verdict(
    table: Comparison,
    split: Mapping[str, Any] | None,
    reference: str,
    target: str,
    holes: Mapping[str, Hole],
) -> Verdict:
    """Say whether the drop is real, how many answers changed, and why; or refuse with the reason.

    `split`: the attribution's JSON, {"error": text}, or None when it was not computed.
    `holes`: the cells without numbers.
    """
    for cell in (reference, target):
        if cell in holes:
            return Verdict(
                f"No verdict: {short(cell)} gave no results.",
                f"Reason: {holes[cell].reason}.",
                advise_end(cell, holes[cell]),
            )
    delta = table.find(reference, target, "delta")
    churn = table.find(reference, target, "churn_tokens")
    if delta is None or churn is None or not delta["n"]:
        return Verdict(f"No verdict: {short(reference)} and {short(target)} share no item.", "", "")
    return Verdict(
        f"{_say_score(delta)}; {_say_churn(churn)}.",
        _say_numbers(table, reference, target, delta, churn),
        _say_cause(split, holes),
    )


def _say_score(delta: Row) -> str:
    if delta["lo"] is None:
        return "Too few items to judge the score"
    if delta["hi"] < 0:
        return f"The drop of {abs(100 * delta['estimate']):.1f} points is real"
    if delta["lo"] > 0:
        return f"The gain of {100 * delta['estimate']:.1f} points is real"
    return "No evidence of a score change"


def _say_churn(churn: Row) -> str:
    share, floor = churn["estimate"], churn["noise_floor"]
    if share == 0:
        return "no answer changed"
    changed = f"{percent(share)} of the answers changed"
    if floor is None:
        return f"{changed}, and without replicates nobody can say how much of that is noise"
    if floor == 0:
        return f"{changed}, while a rerun of a cell changes none"
    if churn["lo"] > churn["noise_floor_hi"]:
        return f"{changed}, more than the {percent(floor)} that a rerun changes"
    return f"{changed}, which is not clearly more than a rerun changes ({percent(floor)})"


def _say_numbers(table: Comparison, reference: str, target: str, delta: Row, churn: Row) -> str:
    before, after = (table.find(reference, target, f"score_{side}") for side in "ab")
    lost, won = (
        table.find(reference, target, name) for name in ("right_to_wrong", "wrong_to_right")
    )
    scores = ""
    if before and after:
        scores = f" {percent(before['estimate'])} to {percent(after['estimate'])},"
    flips = ""
    if lost and won:
        flips = (
            f" ({_count(lost)} lost{bracket(lost, percent)}, {_count(won)} won"
            f"{bracket(won, percent)})"
        )
    short_of = "" if delta["n"] == delta["n_planned"] else f" of {delta['n_planned']} planned"
    return (
        f"From {short(reference)} to {short(target)} the score goes{scores} "
        f"{points(delta['estimate'])} points{bracket(delta, points)} on {delta['n']}{short_of} "
        f"items{flips}. {_count(churn)} answers differ, {percent(churn['estimate'])}"
        f"{bracket(churn, percent)}. {_say_floor(churn)}"
    )


def _count(row: Row) -> str:
    return str(round(row["estimate"] * row["n"]))


def _say_floor(churn: Row) -> str:
    floor, upper = churn["noise_floor"], churn["noise_floor_hi"]
    if floor is None:
        return "The noise floor is unknown: no cell was run twice."
    limit = "" if upper is None else f" (on similar items at most {percent(upper)})"
    if floor == 0:
        return f"Two runs of the same cell never differ{limit}."
    return f"Two runs of the same cell differ on {percent(floor)}{limit}."


def _say_cause(split: Mapping[str, Any] | None, holes: Mapping[str, Hole]) -> str:
    if split is None:
        return "By cause: not computed."
    if "error" in split:
        return f"By cause: not computed ({split['error']})."
    outcome, name = _outcome_to_explain(split["outcomes"])
    if outcome is None:
        return ""
    if not outcome["identified"]:
        known = _say_terms([b for b in outcome["blocks"] if b["estimate"] is not None])
        told = f"This matrix cannot split {name} by cause; it can tell {known or 'nothing'}."
        return f"{told} {advise_next(outcome['next_cells'], holes)}".rstrip()
    terms = outcome["headline"]
    causes = " and ".join(term["name"] for term in terms if _is_established(term, outcome))
    lead = f"Cause of {name}: {causes}" if causes else f"No single cause of {name} is established"
    return f"{lead}. In points: {_say_terms(terms)}."


def _is_established(term: Mapping[str, Any], outcome: Mapping[str, Any]) -> bool:
    """Significant among the terms of its split; overlap of changed answers is no finding.

    Independent perturbations change partly the same answers, so that a churn's interaction is
    negative by itself.
    """
    if term["name"] == "interaction" and outcome["outcome"] != "score":
        return False
    adjusted = term["p_holm"]
    return bool(term["excludes_zero"]) if adjusted is None else bool(adjusted < 0.05)


def _outcome_to_explain(outcomes: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """The score where it moved, else the changed answers."""
    score, churn = outcomes.get("score"), outcomes.get("churn_tokens")
    if score and score["total"]["excludes_zero"]:
        return score, "the score"
    if churn and churn["total"]["estimate"]:
        return churn, "the changed answers"
    return None, ""


def _say_terms(terms: list[Mapping[str, Any]]) -> str:
    return ", ".join(f"{term['name']} {points(term['estimate'])}{_limits(term)}" for term in terms)


def _limits(term: Mapping[str, Any]) -> str:
    if not term["interval"]:
        return ""
    lo, hi = term["interval"]
    return f" [{points(lo)}, {points(hi)}]"
