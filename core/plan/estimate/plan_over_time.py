"""A plan over time at one rate: when each broker copies, and what its disks hold. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.verdicts import DISK_LOOK
from core.plan.copies import SWAP_SECONDS, Side
from core.plan.disk_space import disks_of, free_bytes, whole_bytes
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.near_capacity import NEAR_CAPACITY, broker_traffic, capacity_of
from core.plan.estimate.peak_usage import DiskPoint, ExtraDisk
from core.plan.estimate.trace import Step
from core.plan.estimate.uncertainty import START_SECONDS


@dataclass(frozen=True, slots=True)
class DiskLane:
    """One broker's disks: how much more they hold than before, from the start of an apply on.

    `used_bytes` is what is on them now, whoever put it there, of `whole_bytes`; None where brokers
    do not tell. What is produced meanwhile to what stays on them is not counted.
    """

    broker: int
    course: tuple[DiskPoint, ...]
    used_bytes: int | None = None
    whole_bytes: int | None = None

    @property
    def ends(self) -> float:
        """Return when the last bytes have come or been deleted, in seconds."""
        return self.course[-1].at_seconds

    @property
    def max_bytes(self) -> int:
        return max(held.bytes for held in self.course)

    @property
    def max_fraction(self) -> float | None:
        """Return how full they are at the most; None when that is not known."""
        return self.fraction(self.max_bytes)

    def fraction(self, more_bytes: float) -> float | None:
        """Return how full they are while they hold so much more than before."""
        if not self.whole_bytes or self.used_bytes is None:
            return None
        return (self.used_bytes + more_bytes) / self.whole_bytes

    def columns(self, count: int, whole_seconds: float) -> list[tuple[float, bool]]:
        """Return the most in equal parts of a time, 0 at least, and whether they are nearly full.

        They are never called so for what was on them before.
        """
        width = whole_seconds / count
        found = [0.0] * count
        last = self.course[-1]
        stays = DiskPoint(max(whole_seconds, last.at_seconds), last.bytes)
        for (start, first), (end, then) in pairwise((DiskPoint(0.0, 0), *self.course, stays)):
            if start == end:
                continue
            for at in range(min(int(start / width), count), min(math.ceil(end / width), count)):
                edges = (max(start, at * width), min(end, (at + 1) * width))
                seen = np.interp(edges, (start, end), (first, then))
                found[at] = max(found[at], *seen.tolist())
        return [(largest, largest > 0 and self.is_near(largest)) for largest in found]

    def is_near(self, more_bytes: float) -> bool:
        """Return whether they would be worth a look on the map while they hold so much more."""
        return (self.fraction(more_bytes) or 0.0) >= DISK_LOOK


def build_disk_lanes(state: ClusterState, extra: Iterable[ExtraDisk]) -> tuple[DiskLane, ...]:
    """Return the disks whose course is known, those nearest to full first."""
    lanes = []
    for one in extra:
        if one.course:
            known = state.broker_by_id.get(one.broker)
            disks = disks_of(known.log_dirs) if known is not None else ()
            whole, free = whole_bytes(disks), free_bytes(disks)
            used = None if whole is None or free is None else whole - free
            lanes.append(DiskLane(one.broker, one.course, used, whole))
    return tuple(sorted(lanes, key=lambda d: (-(d.max_fraction or 0.0), -d.max_bytes, d.broker)))


@dataclass(frozen=True, slots=True)
class SideLane:
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
    def max_bytes_per_s(self) -> float:
        return min(self.limit_bytes_per_s, max(step.bytes_per_s for step in self.steps))

    @property
    def max_fraction(self) -> float | None:
        """Return how much of its capacity is used at the most; None when that is not known."""
        return self.fraction(self.max_bytes_per_s)

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
class PlanTimeline:
    """Every broker and side that copies, and disks that fill, and when batches begin, in seconds.

    First who comes nearest to its capacity, where that is known, then who copies most.
    """

    lanes: tuple[SideLane, ...]
    batches: tuple[float, ...]
    disks: tuple[DiskLane, ...] = ()

    @property
    def ends(self) -> float:
        return max(lane.ends for lane in self.lanes)

    @property
    def max_bytes_per_s(self) -> float:
        return max(lane.max_bytes_per_s for lane in self.lanes)

    @property
    def max_disk_bytes(self) -> int:
        return max((disk.max_bytes for disk in self.disks), default=0)


def build_timeline(
    state: ClusterState, load: Load, estimate: Estimate, extra: Iterable[ExtraDisk]
) -> PlanTimeline | None:
    """Return how a plan goes at the rate of its estimate; None where that was not simulated."""
    if estimate.seconds is None:
        return None
    trace = estimate.trace
    now = broker_traffic(state, load)
    at = {broker.id: i for i, broker in enumerate(state.brokers)}

    def lane(broker: int, side: Side, steps: tuple[Step, ...]) -> SideLane:
        limit = estimate.limit_of(broker, side)
        known = state.broker_by_id.get(broker)
        if known is None or side is Side.LOG_DIRS:
            return SideLane(broker, side, steps, limit_bytes_per_s=limit)
        traffic = float(now[side][at[broker]])
        besides = None if math.isnan(traffic) else traffic
        return SideLane(broker, side, steps, besides, capacity_of(known, side), limit)

    def lanes() -> Iterator[SideLane]:
        for side in trace.sides if trace is not None else ():
            steps = trace.steps(side) if trace is not None else ()
            later = (Step(START_SECONDS + a, START_SECONDS + b, rate) for a, b, rate in steps)
            yield lane(*side, tuple(later))
        for row in estimate.rows:
            if row.side is Side.LOG_DIRS and row.seconds is not None:
                limit = estimate.limit_of(row.broker, row.side)
                step = Step(START_SECONDS, row.seconds - SWAP_SECONDS, limit)
                yield lane(row.broker, row.side, (step,))

    found = [one for one in lanes() if one.steps and one.max_bytes_per_s > 0]
    if not found:
        return None
    # Who comes nearest to its capacity first, then who copies most.
    found.sort(
        key=lambda one: (-(one.max_fraction or 0.0), -round(one.bytes), one.broker, one.side.value)
    )
    batches = tuple(START_SECONDS + at for at in trace.submissions) if trace is not None else ()
    return PlanTimeline(tuple(found), batches, build_disk_lanes(state, extra))
