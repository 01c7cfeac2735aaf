"""How far runs are: the runner's own progress lines, read from the hub's copy of the log."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(
    r"^(?P<done>\d{1,9})/(?P<total>\d{1,9}) responses, (?P<rate>\d{1,9}\.\d\d) per s, "
    r"(?P<left>\d{1,9}|inf) s left(?P<sensors>(?:, [\d.]{1,6} (?:°C|W))*)$"
)
"""What runner/executor.py prints; anything else in a log is not progress."""
TAIL_BYTES = 4096
EVERY_S = 10.0


@dataclass(frozen=True)
class Progress:
    """Items done and in all, items per second, seconds left, and the device's sensors as text."""

    done: int
    total: int
    rate: float
    left_s: float
    sensors: str

    def __str__(self) -> str:
        share = self.done / self.total if self.total else 1.0
        return (
            f"{self.done}/{self.total} ({share:.0%}), {self.rate:.2f} per s,"
            f" {format_seconds(self.left_s)} left{self.sensors}"
        )


def format_seconds(seconds: float) -> str:
    """Return `45 s`, `12 min` or `3 h 05 min`; `?` for what is not known."""
    if seconds == float("inf"):
        return "?"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def read_progress(log: Path) -> Progress | None:
    """Return the last progress line of a log, or None; the log is hostile text."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = handle.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        if found := LINE.match(line):
            done, total = int(found["done"]), int(found["total"])
            return Progress(
                done, total, float(found["rate"]), float(found["left"]), found["sensors"]
            )
    return None


@contextmanager
def reporting(
    log: Path, show: Callable[[Progress], object], every_s: float = EVERY_S
) -> Iterator[None]:
    """Show a run's progress whenever it has moved on, at most every so many seconds."""
    ended = threading.Event()
    before = read_progress(log)  # an earlier attempt's

    def watch() -> None:
        shown = before
        while not ended.wait(every_s):
            progress = read_progress(log)
            if progress is not None and progress != shown:
                shown = progress
                show(progress)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
