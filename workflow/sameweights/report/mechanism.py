"""The numbers of the mechanism as rows of the page, each with the query of its positions."""

from __future__ import annotations

from sameweights.attribution.mechanism import WIDE_IN_TAU
from sameweights.attribution.warehouse_mechanism import PLATFORM
from sameweights.report.histogram import noise_floor, wilson
from sameweights.report.rows import answer_rows, position_rows
from sameweights.report.tables import Row


def describe_pairs(split: Row | None, seed: int | None) -> list[Row]:
    """Each pair of the mechanism with its `rows` by key; these are None for several seeds.

    Predictions follow from the margins of their rows and tau: their queries give no `value`.
    """
    pairs = (split or {}).get("mechanism") or []
    platform = next((p["tau_nats"] for p in pairs if PLATFORM in p["player"].split("+")), 0.0)
    return [
        {**pair, "rows": None if seed is None else _rows(pair, seed, platform)} for pair in pairs
    ]


def _rows(pair: Row, seed: int, platform_tau_nats: float) -> Row:
    cells = (f"{pair['from_cell']}/s{seed}", f"{pair['to_cell']}/s{seed}")
    n, flips = pair["positions"], pair["observed_flips"]
    positions: Row = {"cell_a": cells[0], "cell_b": cells[1], "unit": "token positions", "n": n}
    positions |= {"n_planned": n + pair["left_out"], **noise_floor([])}
    answers = {"unit": "generated answers", "n": pair["answers"], "n_planned": pair["answers"]}
    unknown = {"lo": None, "hi": None}
    wide = f"(margin > {WIDE_IN_TAU * platform_tau_nats!r})::INT"
    rows = {
        "tau_nats": {
            "statistic": "tau, nats, root mean square",
            "estimate": pair["tau_nats"],
            **_limits(pair["interval"]),
            "sql": position_rows(*cells, value="change"),
        },
        "predicted_flips": {
            "statistic": "token flips predicted",
            "estimate": pair["predicted_flips"],
            **unknown,
            "sql": position_rows(*cells),
        },
        "observed_flips": {
            "statistic": "token flips",
            **wilson(flips, n),
            "sql": position_rows(*cells, value="flipped"),
        },
        "ties": {
            "statistic": "token flips at a tie",
            **wilson(pair["ties"], n),
            "sql": position_rows(*cells, value="(margin <= 0)::INT * flipped"),
        },
        "too_wide": {
            "statistic": "flips too wide for the platform",
            "estimate": pair["too_wide"],
            **_limits(pair["too_wide_interval"]),
            **{"n": flips, "n_planned": flips, "unit": "flips"},
            "sql": position_rows(*cells, value=wide, keep="flipped = 1"),
        },
        "expected_churn": {
            "statistic": "answers changed, predicted",
            "estimate": pair["expected_churn"],
            **unknown,
            **answers,
            "sql": answer_rows(*cells),
        },
        "observed_churn": {
            "statistic": "answers changed",
            **wilson((pair["observed_churn"] or 0.0) * pair["answers"], pair["answers"]),
            **answers,
            "sql": answer_rows(*cells, value="(position IS NOT NULL)::INT"),
        },
    }
    return {key: {**positions, **row} for key, row in rows.items() if pair[key] is not None}


def _limits(interval: tuple[float, float] | None) -> Row:
    lo, hi = interval or (None, None)
    return {"lo": lo, "hi": hi}
