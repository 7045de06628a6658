"""The replication quota as Kafka's brokers count it (SimpleRate over SampledStat, Kafka 4.x).

Pure: it knows no clock; callers pass `now` in seconds of any clock that does not go back.
"""

from __future__ import annotations

import math

SLOTS = 12
"""replication.quota.window.num (11) + 1."""
SLOT_SECONDS = 1.0
"""replication.quota.window.size.seconds."""
EXPIRY_SECONDS = 11.0
"""A sample is reset once its last event is this old."""
BACKOFF_SECONDS = 1.0
"""replica.fetch.backoff.ms: how long a follower sleeps that has nothing to ask for."""


class Quota:
    """One broker's quota on one side: ask `allows` before a fetch, `record` what was sent after.

    The rate is the sum of the samples over max(now - start of the oldest sample, 1 s).
    `rate` in bytes/s may be changed at any time; infinity is no quota, and is still counted.
    """

    __slots__ = ("_current", "_last", "_start", "_sum", "rate")

    def __init__(self, rate: float = math.inf) -> None:
        self.rate = rate
        self._start: list[float] = []
        self._last: list[float] = []
        self._sum: list[float] = []
        self._current = 0

    @classmethod
    def after_idle(cls, rate: float, now: float) -> Quota:
        """Return a quota that has counted zero bytes for minutes, as a leader's always has.

        Leaders record every follower's fetch, also when nothing in it is throttled; so about
        11.5 s x rate passes at wire speed before they refuse anything.
        """
        quota = cls(rate)
        for tick in range(-4 * SLOTS, 0):
            quota.record(now + tick * SLOT_SECONDS / 4, 0.0)
        return quota

    def allows(self, now: float) -> bool:
        """Return whether the next fetch passes; an exactly met rate does."""
        return self.rate == math.inf or self.measured(now) <= self.rate

    def measured(self, now: float) -> float:
        """Return bytes/s as the broker measures them at `now`, resetting expired samples."""
        start, last = self._start, self._last
        if not start:
            self._open(now)
            return 0.0
        if now - min(last) >= EXPIRY_SECONDS:
            for i, at in enumerate(last):
                if now - at >= EXPIRY_SECONDS:
                    start[i] = last[i] = now
                    self._sum[i] = 0.0
        return sum(self._sum) / max(now - min(start), SLOT_SECONDS)

    def record(self, now: float, size_bytes: float) -> None:
        """Count `size_bytes` at `now`; zero bytes count as an event, too."""
        if not self._start:
            self._open(now)
        elif now - self._start[self._current] >= SLOT_SECONDS:
            self._current = (self._current + 1) % SLOTS
            if self._current == len(self._start):
                self._open(now)
            else:
                self._start[self._current] = now
                self._sum[self._current] = 0.0
        self._sum[self._current] += size_bytes
        self._last[self._current] = now

    def _open(self, now: float) -> None:
        self._start.append(now)
        self._last.append(now)
        self._sum.append(0.0)
