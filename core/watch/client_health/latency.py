"""Client latency at one broker: recent p50 and p99, and when they are too high.

Pure: times are monotonic seconds that are handed in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from statistics import median

from core.cluster.probe.produce_latency import quantile

WINDOW_SECONDS = 30.0
USUAL_SECONDS = 600
"""How long back p99 is remembered, once a second, to know what is usual."""
MIN_USUAL = 30
"""With fewer seconds than these nothing is usual yet."""
MIN_MESSAGES = 20
"""With fewer in the window p99 says nothing."""
TIMES_USUAL = 10.0
MIN_SLOW_MS = 100.0
RECOVERY_PART = 0.5
"""Slow has ended at this part of where it begins: p99 on the edge is told once."""


@dataclass(frozen=True, slots=True)
class Latency:
    """What messages of the last seconds have waited; None while there are none."""

    messages: int
    p50_ms: float | None
    p99_ms: float | None


class LatencyWindow:
    """The waits of the last `seconds`."""

    def __init__(self, seconds: float = WINDOW_SECONDS) -> None:
        self._seconds = seconds
        self._arrived: deque[tuple[float, float]] = deque()
        self._ordered: list[float] = []

    def add(self, at: float, waited_ms: float) -> None:
        self._arrived.append((at, waited_ms))
        insort(self._ordered, waited_ms)

    def clear(self) -> None:
        self._arrived.clear()
        self._ordered.clear()

    def wait(self, now: float) -> Latency:
        """Return p50 and p99 of what came since `now` less the window."""
        while self._arrived and self._arrived[0][0] <= now - self._seconds:
            _, waited = self._arrived.popleft()
            del self._ordered[bisect_left(self._ordered, waited)]
        if not self._ordered:
            return Latency(0, None, None)
        return Latency(
            len(self._ordered), quantile(self._ordered, 0.50), quantile(self._ordered, 0.99)
        )


@dataclass(slots=True)
class SlowDetector:
    """Whether p99 is far above what it was before; looked at once a second.

    What is usual is the median of p99 while it was not slow; `slow_since` is None while it is not.
    """

    slow_since: float | None = None
    _usual: deque[float] = field(default_factory=lambda: deque(maxlen=USUAL_SECONDS))

    @property
    def usual_ms(self) -> float | None:
        return median(self._usual) if len(self._usual) >= MIN_USUAL else None

    def look(self, now: float, wait: Latency) -> None:
        usual = self.usual_ms
        if wait.p99_ms is None or wait.messages < MIN_MESSAGES:
            return
        limit = max(MIN_SLOW_MS, TIMES_USUAL * usual) if usual is not None else float("inf")
        if self.slow_since is not None:
            if wait.p99_ms <= RECOVERY_PART * limit:
                self.slow_since = None
        elif wait.p99_ms >= limit:
            self.slow_since = now
        else:
            self._usual.append(wait.p99_ms)

    def forget(self) -> None:
        """Be slow no more: the broker has stopped answering, which says more."""
        self.slow_since = None
