"""The clock that everything above the cluster is given: tests and the simulator own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A wall clock, a monotonic one and the only way to wait."""

    def now(self) -> datetime:
        """Return the time of day as an aware datetime in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""

    def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock have passed."""


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def sleep_until(
    clock: Clock, due: float, keep_on: Callable[[], bool], *, step_seconds: float = 1.0
) -> None:
    """Wait until the clock's monotonic `due`, or until `keep_on`, asked at each step, says no."""
    while keep_on() and (left := due - clock.monotonic()) > 0:
        clock.sleep(min(left, step_seconds))


class SteadyClock:
    """Another clock whose time of day goes on evenly from when this was made.

    Ages are differences of its times: nobody who sets the time of day makes them longer or shorter.
    `after` is a time that it must not begin before: what an earlier one wrote is never in the
    future.
    """

    def __init__(self, clock: Clock, after: datetime | None = None) -> None:
        self._clock = clock
        now = clock.now()
        self._began, self._at = clock.monotonic(), max(now, after or now)

    def now(self) -> datetime:
        return self._at + timedelta(seconds=self._clock.monotonic() - self._began)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)
