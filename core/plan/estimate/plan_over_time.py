"""A plan over time at one rate: when brokers copy, what disks hold, and the peaks of both. Pure.

What arrives grows as it is copied, and by what is produced meanwhile; what leaves is there until
its move has ended, and a while longer: brokers delete late.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.verdicts import DISK_LOOK
from core.plan.copies import SWAP_SECONDS, Side
from core.plan.disk_space import disks_of, free_bytes, growth_bytes, whole_bytes
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.near_capacity import (
    NEAR_CAPACITY,
    NearCapacity,
    broker_traffic,
    capacity_of,
)
from core.plan.estimate.trace import Step
from core.plan.estimate.uncertainty import START_SECONDS
from core.plan.plan import Plan
from core.units import format_bytes, format_duration

DELETED_SECONDS = 60.0
"""file.delete.delay.ms: how long a replica that has left still lies on its disk."""


CHANGE = 0.05
"""Of the most that disks hold more: what changes by less is left out of their course."""
MAX_POINTS = 80
"""Of one course; where there are more, smaller changes are left out."""


class DiskPoint(NamedTuple):
    """How much more than before a broker's disks hold at a moment, from the start of an apply."""

    at_seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class DiskLane:
    """How much more a broker's disks hold at the most than before; None when not known.

    `at_seconds` is when, from the start of an apply; None where the plan was not simulated. So is
    `course`: straight lines between its points, steps where two have the same time. `used_bytes` is
    what is on them now, whoever put it there, of `whole_bytes`; None where brokers do not tell.
    What is produced meanwhile to what stays on them is not counted.
    """

    broker: int
    bytes: int | None
    at_seconds: float | None = None
    course: tuple[DiskPoint, ...] = ()
    used_bytes: int | None = field(default=None, compare=False)
    whole_bytes: int | None = field(default=None, compare=False)

    @property
    def words(self) -> str:
        size = "an unknown size" if self.bytes is None else format_bytes(self.bytes)
        when = "" if self.at_seconds is None else f" after {format_duration(self.at_seconds)}"
        return f"{size} on broker {self.broker}{when}"

    @property
    def ends(self) -> float:
        """Return when the last bytes have come or been deleted, in seconds."""
        return self.course[-1].at_seconds

    @property
    def max_bytes(self) -> int:
        return self.bytes or 0

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
        peaks = [0.0] * count
        last = self.course[-1]
        stays = DiskPoint(max(whole_seconds, last.at_seconds), last.bytes)
        for (start, first), (end, then) in pairwise((DiskPoint(0.0, 0), *self.course, stays)):
            if start == end:
                continue
            for at in range(min(int(start / width), count), min(math.ceil(end / width), count)):
                edges = (max(start, at * width), min(end, (at + 1) * width))
                rates = np.interp(edges, (start, end), (first, then))
                peaks[at] = max(peaks[at], *rates.tolist())
        return [(largest, largest > 0 and self.is_near(largest)) for largest in peaks]

    def is_near(self, more_bytes: float) -> bool:
        """Return whether they would be worth a look on the map while they hold so much more."""
        return (self.fraction(more_bytes) or 0.0) >= DISK_LOOK


@dataclass(slots=True)
class _DiskChanges:
    """What comes to a broker's disks (from, to, bytes) and what leaves them (when, bytes)."""

    comes: list[tuple[float, float, int]] = field(default_factory=list)
    leaves: list[tuple[float, int]] = field(default_factory=list)

    def course(self) -> list[DiskPoint]:
        """Return how much more they hold than before, at each moment when that bends or steps."""
        begins, ends, sizes = (np.array(column) for column in zip(*self.comes, strict=True))
        slopes = sizes / np.maximum(ends - begins, 1e-9)
        at = np.concatenate([begins, np.maximum(ends, begins + 1e-9)])
        order = np.argsort(at, kind="stable")
        at, changes = at[order], np.concatenate([slopes, -slopes])[order]
        come = np.concatenate([[0.0], np.cumsum(np.cumsum(changes)[:-1] * np.diff(at))])
        left_at = np.array(sorted(when for when, _ in self.leaves))
        left = np.concatenate([[0.0], np.cumsum([size for _, size in sorted(self.leaves)])])
        moments = np.unique(np.concatenate([at, left_at]))
        there = np.interp(moments, at, come)
        # What has left at a moment is still there just before it.
        before = there - left[np.searchsorted(left_at, moments, "left")]
        after = there - left[np.searchsorted(left_at, moments, "right")]
        held = np.round(np.stack([before, after], axis=1)).ravel()
        points = zip(np.repeat(moments, 2), held, strict=True)
        return list(dict.fromkeys(DiskPoint(float(moment), int(size)) for moment, size in points))


def _drop_small_changes(course: Sequence[DiskPoint], peak: DiskPoint) -> tuple[DiskPoint, ...]:
    """Return a course without small changes; its first point, its last and `peak` stay."""
    change = max(CHANGE * peak.bytes, 1)
    while True:
        kept = [course[0]]
        for before, point in pairwise(course):
            must = point in (peak, course[-1])
            if must or abs(point.bytes - kept[-1].bytes) >= change:
                kept += [point] if before == kept[-1] else [before, point]
        if len(kept) <= MAX_POINTS:
            return tuple(kept)
        change *= 2


def estimate_extra_disk(
    state: ClusterState, load: Load, plan: Plan, estimate: Estimate
) -> tuple[DiskLane, ...]:
    """Return how much more each broker's disks hold at the most, the most first.

    Where the plan was not simulated, all of it arrives before anything leaves.
    """
    when = _spans(estimate)
    timed = True
    disks: defaultdict[int, _DiskChanges] = defaultdict(_DiskChanges)
    unknown: set[int] = set()
    for move in plan:
        row = state.find(move.tp)
        size = -1 if row is None else int(state.partition_size_bytes[row])
        if row is None or size < 0:
            unknown.update(move.receiving)
            continue
        sizes = state.size_bytes[state.replica_slice(row)].tolist()
        removed = state.row(row).removing
        held = {
            b: own
            for b, own in zip(state.replicas(row), sizes, strict=True)
            if own >= 0 and b not in removed
        }
        ended = START_SECONDS
        grows = growth_bytes(state, load, row, estimate.seconds or 0.0)
        for broker in move.receiving:
            comes = grows + (
                held.get(broker, size) if broker in move.dir_moves else size - held.get(broker, 0)
            )
            if comes > 0:
                span = when.get((move.tp, broker)) or when.get((None, broker))
                timed = timed and span is not None
                begin, end = span or (START_SECONDS, START_SECONDS)
                disks[broker].comes.append((begin, end, comes))
                ended = max(ended, end)
        for broker in (*move.removing, *move.dir_moves):
            disks[broker].leaves.append((ended + DELETED_SECONDS, held.get(broker, size)))
    lanes = [DiskLane(broker, None) for broker in unknown]
    for broker, disk in disks.items():
        if disk.comes and broker not in unknown:
            if not timed:
                lanes.append(DiskLane(broker, sum(size for *_, size in disk.comes)))
                continue
            course = disk.course()
            peak = max(course, key=lambda held: held.bytes)
            kept, space = _drop_small_changes(course, peak), _disk_space(state, broker)
            lanes.append(DiskLane(broker, peak.bytes, peak.at_seconds, kept, *space))
    return tuple(
        sorted(
            (lane for lane in lanes if lane.bytes != 0),
            key=lambda lane: (lane.bytes is not None, -(lane.bytes or 0), lane.broker),
        )
    )


def _disk_space(state: ClusterState, broker: int) -> tuple[int | None, int | None]:
    """Return what is used of a broker's disks, and how large they are; None where not known."""
    known = state.broker_by_id.get(broker)
    disks = disks_of(known.log_dirs) if known is not None else ()
    whole, free = whole_bytes(disks), free_bytes(disks)
    return (None if whole is None or free is None else whole - free), whole


def _spans(estimate: Estimate) -> Mapping[tuple[TopicPartition | None, int], tuple[float, float]]:
    """Return when each new replica is copied, after the start of an apply; log dirs by broker."""
    spans: dict[tuple[TopicPartition | None, int], tuple[float, float]] = {
        (None, row.broker): (START_SECONDS, row.seconds)
        for row in estimate.rows
        if row.side is Side.LOG_DIRS and row.seconds is not None
    }
    if estimate.trace is not None:
        for at, copy in enumerate(estimate.trace.copies):
            begin, end = estimate.trace.when(at)
            spans[copy.tp, copy.destination] = START_SECONDS + begin, START_SECONDS + end
    return spans


NAMED = 3


@dataclass(frozen=True, slots=True)
class PeakUsage:
    """Who comes nearest to its capacity, None when nobody does; extra disk, the most first."""

    near_capacity: NearCapacity | None = None
    extra: tuple[DiskLane, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """Return what is to be said of it."""
        sentences = []
        if self.near_capacity is not None:
            words = self.near_capacity.words
            sentences.append(f"With the throttle on top {words}: clients there may wait longer.")
        if self.extra:
            shown = [disk.words for disk in self.extra[:NAMED]]
            more = len(self.extra) - len(shown)
            rest = f"; less on {more} more" if more else ""
            sentences.append(f"Meanwhile disks hold more, at most {', '.join(shown)}{rest}.")
        return sentences


def estimate_peak_usage(
    state: ClusterState, load: Load, plan: Plan, estimate: Estimate
) -> PeakUsage:
    """Return what brokers bear at the rate of an estimate; nothing of one that never ends."""
    if estimate.never is not None:
        return PeakUsage()
    return PeakUsage(estimate.near_capacity, estimate_extra_disk(state, load, plan, estimate))


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
        columns = [(0.0, False)] * count
        for start, end, bytes_per_s in self.steps:
            rate, near = min(self.limit_bytes_per_s, bytes_per_s), self.is_near(bytes_per_s)
            for at in range(max(int(start / width), 0), min(math.ceil(end / width), count)):
                seconds = min(end, (at + 1) * width) - max(start, at * width)
                if seconds > 0:
                    mean, ever = columns[at]
                    columns[at] = mean + rate * seconds / width, ever or near
        return columns

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
    state: ClusterState, load: Load, estimate: Estimate, extra: Iterable[DiskLane]
) -> PlanTimeline | None:
    """Return how a plan goes at the rate of its estimate; None where that was not simulated."""
    if estimate.seconds is None:
        return None
    trace = estimate.trace
    now = broker_traffic(state, load)
    at = {broker.id: i for i, broker in enumerate(state.brokers)}

    def lane_of(broker: int, side: Side, steps: tuple[Step, ...]) -> SideLane:
        limit = estimate.limit_of(broker, side)
        known = state.broker_by_id.get(broker)
        if known is None or side is Side.LOG_DIRS:
            return SideLane(broker, side, steps, limit_bytes_per_s=limit)
        traffic = float(now[side][at[broker]])
        besides = None if math.isnan(traffic) else traffic
        return SideLane(broker, side, steps, besides, capacity_of(known, side), limit)

    def all_lanes() -> Iterator[SideLane]:
        for side in trace.sides if trace is not None else ():
            steps = trace.steps(side) if trace is not None else ()
            later = (Step(START_SECONDS + a, START_SECONDS + b, rate) for a, b, rate in steps)
            yield lane_of(*side, tuple(later))
        for row in estimate.rows:
            if row.side is Side.LOG_DIRS and row.seconds is not None:
                limit = estimate.limit_of(row.broker, row.side)
                step = Step(START_SECONDS, row.seconds - SWAP_SECONDS, limit)
                yield lane_of(row.broker, row.side, (step,))

    lanes = [lane for lane in all_lanes() if lane.steps and lane.max_bytes_per_s > 0]
    if not lanes:
        return None
    # Who comes nearest to its capacity first, then who copies most.
    lanes.sort(
        key=lambda row: (-(row.max_fraction or 0.0), -round(row.bytes), row.broker, row.side.value)
    )
    batches = tuple(START_SECONDS + at for at in trace.submissions) if trace is not None else ()
    return PlanTimeline(tuple(lanes), batches, fullest_first(extra))


def fullest_first(disks: Iterable[DiskLane]) -> tuple[DiskLane, ...]:
    """Return the disks whose course is known, those nearest to full first."""
    known = (disk for disk in disks if disk.course)
    return tuple(sorted(known, key=lambda d: (-(d.max_fraction or 0.0), -d.max_bytes, d.broker)))
