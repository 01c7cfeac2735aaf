"""Progress from logs: the runner's own lines, hostile text, and one line a device."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from rich.console import Console

from runner import executor
from runner.sensors import Sensors
from sameweights.errors import UserError
from sameweights.remote.board import show_board
from sameweights.remote.progress import format_seconds, read_progress, reporting


def log_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "runner.log"
    path.write_text(text)
    return path


def test_the_runners_own_line_is_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides are the real ones: what the runner prints is what the hub reads."""
    monkeypatch.setattr(executor, "PROGRESS_EVERY_S", 0.0)
    zone = tmp_path / "thermal" / "thermal_zone0" / "temp"
    zone.parent.mkdir(parents=True)
    zone.write_text("61000\n")
    progress = executor.Progress(40, 0, Sensors(tmp_path, "/no/such/tool"))
    progress.report(10)
    found = read_progress(log_of(tmp_path, capsys.readouterr().err))
    assert found is not None
    assert (found.done, found.total, found.sensors) == (10, 40, ", 61 °C")
    assert found.left_s == pytest.approx(3 * 10 / found.rate, rel=0.5, abs=1)
    assert str(found).startswith("10/40 (25%), ") and str(found).endswith(" left, 61 °C")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "loading",
        "\x1b[2J5/9 responses, 1.00 per s, 4 s left",
        "5/9 responses, 1.00 per s, 4 s left, [red]hot[/red]",
        f"{'9' * 5000}/9 responses, 1.00 per s, 4 s left",
        "5/9 responses, 1.0.0 per s, 4 s left",
    ],
)
def test_other_text_is_no_progress(tmp_path: Path, line: str) -> None:
    assert read_progress(log_of(tmp_path, line + "\n")) is None
    assert read_progress(tmp_path / "missing") is None


def test_a_run_shows_new_progress_only(tmp_path: Path) -> None:
    log = log_of(tmp_path, "1/9 responses, 1.00 per s, 8 s left\n")
    seen: list[int] = []
    with reporting(log, lambda progress: seen.append(progress.done), every_s=0.01):
        for done in (4, 8):
            with log.open("a") as handle:
                handle.write(f"{done}/9 responses, 1.00 per s, {9 - done} s left\n")
            while done not in seen:
                time.sleep(0.005)
            time.sleep(0.03)
    assert seen == [4, 8]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (125, "2 min"), (7300, "2 h 02 min"), (float("inf"), "?")],
)
def test_times_are_readable(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_the_board_has_one_line_a_device(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"matrix\.json: no such file"):
        show_board(tmp_path, False, Console())
    cells = [
        {"cell": f"m/{device}/torch/fp32/s0", "device": device, "backend": "torch",
         "precision": "fp32", "seed": 0, "replicates": [0, 1], "state": state}
        for device, state in (("box", "planned"), ("card", "planned"), ("off", "excluded"))
    ]  # fmt: skip
    (tmp_path / "matrix.json").write_text(json.dumps({"cells": cells}))
    for run, outcome in (("box/torch/fp32/s0/r0", "failed"), ("box/torch/fp32/s0/r1", None)):
        folder = tmp_path / "cells/m" / run
        folder.mkdir(parents=True)
        log_of(folder, "4/9 responses, 2.00 per s, 3 s left, 61 °C, 7.5 W\n")
        if outcome:
            (folder / "run.json").write_text(json.dumps({"outcome": outcome}))
    text = io.StringIO()
    show_board(tmp_path, True, Console(file=text, width=40))
    assert text.getvalue().splitlines() == [
        "box   1/2 runs (1 failed)  torch/fp32/s0/r1 4/9 (44%), 2.00 per s, 3 s left, 61 °C, 7.5 W",
        "card  0/2 runs      waiting",
    ]
