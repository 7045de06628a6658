"""A budget of time for a whole command, as what is left of it to work with.

Told in seconds of this thread's processor time, as what is still to be done is known in those: who
shares the processor with others gets as much less done until the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEADY_SECONDS = 0.1
"""The pace counts from the first look on as if so much had been worked alone before."""


class TimeBudget:
    """So many seconds from `began` (monotonic); each call says how many are left to work with."""

    def __init__(
        self,
        seconds: float,
        began: float,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        self._end, self._now, self._used = began + seconds, now, used
        self._first: tuple[float, float] | None = None

    def __call__(self) -> float:
        now, used = self._now(), self._used()
        if self._first is None:
            self._first = now, used
        since, before = self._first
        pace = (now - since + STEADY_SECONDS) / (used - before + STEADY_SECONDS)
        return (self._end - now) / max(1.0, pace)
