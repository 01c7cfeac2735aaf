"""Signals that end a hub process become an exception, so that work on a device is cleaned up."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def cancelling(cancel: Callable[[], None]) -> Iterator[None]:
    """Run a block; when a signal ends it, call `cancel` first and exit with 128 + its number."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    previous = {number: signal.signal(number, leave) for number in ENDING}
    try:
        yield
    except Interrupted as interrupt:
        # A second Ctrl-C must not cut the cancel short.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        cancel()
        sys.exit(128 + interrupt.number)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Interrupted(BaseException):
    """A signal asked this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
