"""The device lock: one run at a time, because two would change each other's timing and memory."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path


class LockHeld(Exception):
    """Another process holds the lock; the message says which one, as it wrote itself."""


@contextmanager
def hold_lock(path: Path, cell: str) -> Iterator[None]:
    """Hold an exclusive flock for the block; raises LockHeld at once if it is taken.

    The kernel frees the lock when its holder dies, however it dies: no stale lock can remain.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read(4096).strip() or "its holder has not written its name yet"
            raise LockHeld(f"{path}: the device is locked: {holder}") from None
        handle.truncate(0)
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        json.dump({"pid": os.getpid(), "cell": cell, "since_utc": since}, handle)
        handle.flush()
        yield
