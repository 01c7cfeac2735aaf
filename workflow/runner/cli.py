"""The runner's command line: run, build, probe, --version. Standard library only."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from runner.backends import adapter_names
from runner.build import build_engine
from runner.checks import OutdatedEnvironment, read_spec
from runner.contract import RUNNER_VERSION, ContractError
from runner.host import host_facts
from runner.lock import LockHeld, hold_lock
from runner.session import REFUSALS, run_cell

EXIT_CODES = {"complete": 0, "failed": 1, "stopped": 3}
EXIT_LOCKED = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 complete, 1 failed, 3 stopped by a check, 4 lock held."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command == "probe":
        json.dump({**host_facts(), "adapters": adapter_names()}, sys.stdout, indent=1)
        print()
        return 0
    if options.command == "build":
        return build(options)
    return run(options.cell, options.requests, options.model, options.out, options.lock)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(prog="runner", description="Runs one cell on this device.")
    parser.add_argument("--version", action="version", version=RUNNER_VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    run_parser = commands.add_parser("run", help="run a cell; resumes where it was stopped")
    run_parser.add_argument("--cell", type=Path, required=True, help="cell.json")
    run_parser.add_argument("--requests", type=Path, required=True, help="requests.jsonl")
    run_parser.add_argument("--model", type=Path, required=True, help="model folder")
    run_parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    run_parser.add_argument("--lock", type=Path, help="lock file of the device")
    build_parser = commands.add_parser("build", help="build the cell's engine on this device")
    build_parser.add_argument("--cell", type=Path, required=True, help="cell.json")
    build_parser.add_argument("--model", type=Path, required=True, help="model folder")
    build_parser.add_argument("--out", type=Path, required=True, help="copy of engine.json")
    build_parser.add_argument("--checkpoint", type=Path, help="converted elsewhere")
    build_parser.add_argument("--calibration", type=Path, help="texts, JSON Lines")
    build_parser.add_argument("--lock", type=Path, help="lock file of the device")
    commands.add_parser("probe", help="print this machine's facts as JSON")
    return parser


def run(cell: Path, requests: Path, model: Path, out: Path, lock: Path | None) -> int:
    """Run a cell under the device's lock and return the exit code."""
    try:
        spec = read_spec(cell)
        # Without a device lock two runs must still not append to one journal.
        with hold_lock(lock or out / "runner.lock", spec.cell):
            outcome = run_cell(spec, requests, model, out, log)
    except LockHeld as error:
        log(str(error))
        return EXIT_LOCKED
    except (ContractError, OSError) as error:
        log(f"failed: {error}")
        return EXIT_CODES["failed"]
    return EXIT_CODES[outcome]


def build(options: argparse.Namespace) -> int:
    """Build a cell's engine under the device's lock and return the exit code."""
    try:
        spec = read_spec(options.cell)
        with hold_lock(options.lock or Path("build.lock"), spec.cell):
            build_engine(
                spec, options.model, options.checkpoint, options.calibration, options.out, log
            )
    except LockHeld as error:
        log(str(error))
        return EXIT_LOCKED
    except REFUSALS as error:
        log(f"stopped: {error}")
        return EXIT_CODES["stopped"]
    except (ContractError, OutdatedEnvironment, OSError, RuntimeError) as error:
        log(f"failed: {error}")
        return EXIT_CODES["failed"]
    return EXIT_CODES["complete"]


def log(message: str) -> None:
    """Write one line to stderr, which the transport keeps as runner.log."""
    print(message, file=sys.stderr, flush=True)
