"""One line a device: runs ended, and how far the running ones are; read from the results folder."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sameweights.errors import UserError
from sameweights.paths import Layout
from sameweights.remote.progress import read_progress

REPAINT_S = 2.0


@dataclass
class DeviceState:
    """Counts of a device's runs by outcome, and a text of each run without an outcome yet."""

    planned: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)


def read_board(results: Path) -> dict[str, DeviceState]:
    """Return every planned device's state; raises UserError before the first run of Snakemake.

    A run counts as running when it has a log and no run.json: one whose hub was killed, too.
    """
    layout = Layout(results)
    if not layout.matrix.is_file():
        raise UserError(f"{layout.matrix}: no such file; run `snakemake` first")
    states: dict[str, DeviceState] = {}
    for cell in json.loads(layout.matrix.read_text(encoding="utf-8"))["cells"]:
        if cell["state"] != "planned":
            continue
        state = states.setdefault(cell["device"], DeviceState())
        for replicate in cell["replicates"]:
            state.planned += 1
            folder = layout.run(f"{cell['cell']}/r{replicate}")
            if (folder / "run.json").is_file():
                outcome = json.loads((folder / "run.json").read_bytes())["outcome"]
                state.outcomes[outcome] = state.outcomes.get(outcome, 0) + 1
            elif (folder / "runner.log").is_file():
                name = f"{cell['backend']}/{cell['precision']}/s{cell['seed']}/r{replicate}"
                progress = read_progress(folder / "runner.log")
                state.running.append(f"{name} {progress or 'loading'}")
    return states


def lines(states: dict[str, DeviceState]) -> list[tuple[str, str, str]]:
    """Return (device, runs ended, runs under way) of every device."""
    found = []
    for device, state in states.items():
        ended = sum(state.outcomes.values())
        bad = [f"{n} {name}" for name, n in state.outcomes.items() if name != "complete"]
        counts = f"{ended}/{state.planned} runs" + (f" ({', '.join(bad)})" if bad else "")
        idle = "all done" if ended == state.planned else "waiting"
        found.append((device, counts, "; ".join(state.running) or idle))
    return found


def show_board(results: Path, watch: bool, console: Console) -> None:
    """Print the board once; with `watch` and a terminal, repaint it until all runs have ended."""
    states = read_board(results)
    if not (watch and console.is_terminal):
        width = max((len(device) for device in states), default=0)
        for device, counts, running in lines(states):
            console.print(Text(f"{device:{width}}  {counts:12}  {running}"), soft_wrap=True)
        return
    with Live(_table(states), console=console, auto_refresh=False) as live:
        while any(sum(s.outcomes.values()) < s.planned for s in states.values()):
            time.sleep(REPAINT_S)
            states = read_board(results)
            live.update(_table(states), refresh=True)


def _table(states: dict[str, DeviceState]) -> Table:
    table = Table("device", "ended", "under way", box=None)
    for row in lines(states):
        table.add_row(*map(Text, row))
    return table
