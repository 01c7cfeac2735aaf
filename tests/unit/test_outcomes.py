"""Failed runs are forgotten and tried again; stopped and complete ones stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner.contract import RunRecord
from sameweights.cli import app
from sameweights.outcomes import forget_failed_runs, list_outcomes

RUN = "m/{}/torch/fp32/s0/r0"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for device, outcome in (("a", "complete"), ("b", "stopped"), ("c", "failed")):
        record = RunRecord(
            cell=f"m/{device}/torch/fp32/s0",
            identity="0" * 64,
            outcome=outcome,  # type: ignore[arg-type]
            reason=None if outcome == "complete" else f"{outcome} because",
            counts={},
            responses_sha256=None,
            canary=None,
            environment={},
            timing={},
            started_utc="",
            ended_utc="",
        )
        folder = tmp_path / "cells" / RUN.format(device)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(record.to_json()))
    return tmp_path


def test_only_failed_runs_of_this_matrix_are_forgotten(results: Path) -> None:
    assert forget_failed_runs(results, [RUN.format("a"), RUN.format("b")]) == []
    assert forget_failed_runs(results, [RUN.format(d) for d in "abcd"]) == [RUN.format("c")]
    assert [run for run, _ in list_outcomes(results)] == [RUN.format("a"), RUN.format("b")]


def test_check_cells_fails_on_failures_and_prints_reasons(results: Path) -> None:
    result = CliRunner().invoke(app, ["check-cells", str(results)])
    assert result.exit_code == 1
    assert "failed because" in result.output
    assert "stopped because" in result.output
    forget_failed_runs(results, [RUN.format("c")])
    result = CliRunner().invoke(app, ["check-cells", str(results)])
    assert result.exit_code == 0
    assert "stopped because" in result.output
