"""A plan over time at one rate: what each broker and side copies when, beside what it bears anyway.

Pure. It is the estimate's own play-through, so that its lanes end when the estimate says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.copying import Side
from core.plan.crowding import NEAR_CAPACITY, capacity_of, carried
from core.plan.dir_copies import SWAP_SECONDS
from core.plan.disk_lane import DiskLane, disk_lanes
from core.plan.estimate import Estimate
from core.plan.extra_disk import Extra
from core.plan.played import Step
from core.plan.spread import START_SECONDS


@dataclass(frozen=True, slots=True)
class Lane:
    """One broker and side: its rate for the plan, step by step, from the start of an apply on.

    `besides_bytes_per_s` is what it bears beside that, as leader and as follower; it and the
    capacity are None where they are not known, and for copies between log dirs.
    """

    broker: int
    side: Side
    steps: tuple[Step, ...]
    besides_bytes_per_s: float | None = None
    capacity_bytes_per_s: float | None = None
    limit_bytes_per_s: float = math.inf
    """The throttle. What a quota lets through in its first window is more, and no rate."""

    @property
    def ends(self) -> float:
        """Return when its last copy has ended, in seconds."""
        return self.steps[-1].end

    @property
    def bytes(self) -> float:
        """Return all that it copies, what is produced meanwhile included."""
        return sum(step.bytes for step in self.steps)

    @property
    def most_bytes_per_s(self) -> float:
        return min(self.limit_bytes_per_s, max(step.bytes_per_s for step in self.steps))

    @property
    def most_fraction(self) -> float | None:
        """Return how much of its capacity is used at the most; None when that is not known."""
        return self.fraction(self.most_bytes_per_s)

    def fraction(self, bytes_per_s: float) -> float | None:
        """Return how much of its capacity so much for the plan and all else come to."""
        if not self.capacity_bytes_per_s or self.besides_bytes_per_s is None:
            return None
        rate = min(self.limit_bytes_per_s, bytes_per_s)
        return (self.besides_bytes_per_s + rate) / self.capacity_bytes_per_s

    def columns(self, count: int, whole_seconds: float) -> list[tuple[float, bool]]:
        """Return the mean rate in equal parts of a time, and whether it is ever too near there."""
        width = whole_seconds / count
        found = [(0.0, False)] * count
        for start, end, bytes_per_s in self.steps:
            rate, near = min(self.limit_bytes_per_s, bytes_per_s), self.is_near(bytes_per_s)
            for at in range(max(int(start / width), 0), min(math.ceil(end / width), count)):
                seconds = min(end, (at + 1) * width) - max(start, at * width)
                if seconds > 0:
                    mean, ever = found[at]
                    found[at] = mean + rate * seconds / width, ever or near
        return found

    def is_near(self, bytes_per_s: float) -> bool:
        """Return whether its clients may wait longer while it copies so much."""
        return (self.fraction(bytes_per_s) or 0.0) >= NEAR_CAPACITY


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Every broker and side that copies, the worst first, and when batches begin, in seconds.

    Worst is who comes nearest to its capacity (where that is known: before all others), then who
    copies most. `disks` are those that hold more meanwhile, the same way.
    """

    lanes: tuple[Lane, ...]
    batches: tuple[float, ...]
    disks: tuple[DiskLane, ...] = ()

    @property
    def ends(self) -> float:
        return max(lane.ends for lane in self.lanes)

    @property
    def most_bytes_per_s(self) -> float:
        return max(lane.most_bytes_per_s for lane in self.lanes)

    @property
    def most_disk_bytes(self) -> int:
        return max((disk.most_bytes for disk in self.disks), default=0)


def time_line(
    state: ClusterState, load: Load, estimate: Estimate, extra: Iterable[Extra]
) -> TimeLine | None:
    """Return how a plan goes at the rate of its estimate; None where that was not played out.

    `extra` is what disks hold more then (core.plan.extra_disk).
    """
    if estimate.seconds is None:
        return None
    played = estimate.played
    now = carried(state, load)
    at = {broker.id: i for i, broker in enumerate(state.brokers)}

    def lane(broker: int, side: Side, steps: tuple[Step, ...]) -> Lane:
        limit = estimate.limit_of(broker, side)
        known = state.broker_by_id.get(broker)
        if known is None or side is Side.LOG_DIRS:
            return Lane(broker, side, steps, limit_bytes_per_s=limit)
        besides = float(now[side][at[broker]])
        unknown = math.isnan(besides)
        return Lane(
            broker, side, steps, None if unknown else besides, capacity_of(known, side), limit
        )

    def lanes() -> Iterator[Lane]:
        for side in played.sides if played is not None else ():
            steps = played.steps(side) if played is not None else ()
            yield lane(
                *side,
                tuple(Step(START_SECONDS + a, START_SECONDS + b, rate) for a, b, rate in steps),
            )
        for row in estimate.rows:
            if row.side is Side.LOG_DIRS and row.seconds is not None:
                limit = estimate.limit_of(row.broker, row.side)
                step = Step(START_SECONDS, row.seconds - SWAP_SECONDS, limit)
                yield lane(row.broker, row.side, (step,))

    found = [one for one in lanes() if one.steps and one.most_bytes_per_s > 0]
    if not found:
        return None
    return TimeLine(
        tuple(sorted(found, key=_worst_first)),
        tuple(START_SECONDS + at for at in played.submissions) if played is not None else (),
        disk_lanes(state, extra),
    )


def _worst_first(lane: Lane) -> tuple[float, int, int, str]:
    return -(lane.most_fraction or 0.0), -round(lane.bytes), lane.broker, lane.side.value
