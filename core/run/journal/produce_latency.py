"""Produce latency and ISR changes on brokers during a run.

Pure. What is not known is None, and never taken for calm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from statistics import median
from typing import Any

from core.cluster.probe.produce_latency import LatencyWindow

LATE, CALM = 1.3, 1.15
"""Times what producers waited before the run: reason to slow down, no reason not to go faster."""
MUCH_TOO_LATE = 1.5
"""What producers are not to feel, whatever the median says."""
USUALLY_LATE = 1.1
"""The median is later, too, when brokers have too much to do; p99 alone jumps on any cluster, and
is calm by chance as often as it is late by chance."""
WINDOWS = 3
"""So many windows in a row must be late."""
MIN_MS = 2.0
"""What producers wait at least, as far as ratios go: below it everything is noise."""


class Strain(Enum):
    """How one broker's side fares."""

    CALM = "calm"
    LATE = "late"
    OUT_OF_STEP = "out of step"
    BETWEEN = "between"
    """Neither: later than before, but not enough to act upon."""
    WATCHED = "watched"
    """No window has ended yet since its rate was last changed."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LatencyBaseline:
    """What producers waited before a run began."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class BaselineMeasurement:
    """What producers to each broker waited; `trouble` says why that is not known."""

    before: Mapping[int, LatencyBaseline]
    trouble: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "before": [
                [broker, round(wait.p50_ms, 3), round(wait.p99_ms, 3)]
                for broker, wait in sorted(self.before.items())
            ],
            "trouble": self.trouble,
        }

    @classmethod
    def from_json(cls, p: Mapping[str, Any]) -> BaselineMeasurement:
        return cls(
            {broker: LatencyBaseline(p50, p99) for broker, p50, p99 in p["before"]}, p["trouble"]
        )


@dataclass(frozen=True, slots=True)
class SideObservation:
    """What is known of one broker and side.

    `windows` are the probe's, oldest first; `out_of_step` says which follower has left the ISR
    there, "" none. `flow_bytes_per_s` is what the run's copies get there, `inflow_bytes_per_s`
    what counts in the quota besides, `left_bytes` what they have still to bring; None is unknown.
    """

    before: LatencyBaseline | None = None
    windows: tuple[LatencyWindow, ...] = ()
    out_of_step: str = ""
    flow_bytes_per_s: float = 0.0
    inflow_bytes_per_s: float = 0.0
    left_bytes: float | None = None

    @property
    def latency_ratio(self) -> float | None:
        """Return what producers wait now beside what they waited before; None is unknown."""
        if self.before is None or not self.windows:
            return None
        return median(_ratio(w.p99_ms, self.before.p99_ms) for w in self.windows[-WINDOWS:])


def strain(observed: SideObservation, since: datetime) -> Strain:
    """Return how a side fares whose rate was last changed at `since`.

    Late are several windows in a row that began after that: what came before is another rate's.
    """
    if observed.out_of_step:
        return Strain.OUT_OF_STEP
    before, calm_so_far = observed.before, observed.latency_ratio
    if before is None:
        return Strain.UNKNOWN
    own = [window for window in observed.windows if window.begun_at >= since][-WINDOWS:]
    if not own or calm_so_far is None:
        return Strain.WATCHED
    lowest = min(_ratio(window.p99_ms, before.p99_ms) for window in own)
    usual = median(_ratio(window.p50_ms, before.p50_ms) for window in own)
    late = (lowest > LATE and usual > USUALLY_LATE) or lowest > MUCH_TOO_LATE
    if late and len(own) == WINDOWS:
        return Strain.LATE
    newest = _ratio(own[-1].p99_ms, before.p99_ms)
    usual_so_far = median(_ratio(w.p50_ms, before.p50_ms) for w in observed.windows[-WINDOWS:])
    calm = calm_so_far <= CALM and newest <= LATE and usual_so_far <= USUALLY_LATE
    return Strain.CALM if calm else Strain.BETWEEN


def _ratio(now_ms: float, before_ms: float) -> float:
    return max(now_ms, MIN_MS) / max(before_ms, MIN_MS)


def before(windows: Sequence[LatencyWindow]) -> LatencyBaseline | None:
    """Return what producers waited before a run: the median window, of two at least."""
    if len(windows) < 2:
        return None
    return LatencyBaseline(median(w.p50_ms for w in windows), median(w.p99_ms for w in windows))
