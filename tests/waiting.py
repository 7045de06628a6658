"""Waiting for what other processes do: until it holds, with a deadline, never a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], seconds: float = 60.0, *, every: float = 0.02) -> None:
    """Return once it holds, asked `every` so many seconds; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(every)
