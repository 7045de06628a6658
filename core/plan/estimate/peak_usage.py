"""Brokers' peak load and disk use while a plan runs. Pure.

What arrives grows as it is copied, and by what is produced meanwhile; what leaves is there until
its move has ended, and a while longer: brokers delete late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import Side
from core.plan.disk_space import growth_bytes
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.near_capacity import NearCapacity
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
class ExtraDisk:
    """How much more a broker's disks hold at the most than before; None when not known.

    `at_seconds` is when, from the start of an apply; None where the plan was not simulated. So is
    `course`: straight lines between its points, steps where two have the same time.
    """

    broker: int
    bytes: int | None
    at_seconds: float | None = None
    course: tuple[DiskPoint, ...] = ()

    @property
    def words(self) -> str:
        size = "an unknown size" if self.bytes is None else format_bytes(self.bytes)
        when = "" if self.at_seconds is None else f" after {format_duration(self.at_seconds)}"
        return f"{size} on broker {self.broker}{when}"


@dataclass(slots=True)
class _Disks:
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
        held = [there - left[np.searchsorted(left_at, moments, side)] for side in _SIDES]
        points = zip(np.repeat(moments, 2), np.round(np.stack(held, axis=1)).ravel(), strict=True)
        return list(dict.fromkeys(DiskPoint(float(moment), int(size)) for moment, size in points))


_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
"""What has left at a moment is still there just before it."""


def _thinned(course: Sequence[DiskPoint], peak: DiskPoint) -> tuple[DiskPoint, ...]:
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
) -> tuple[ExtraDisk, ...]:
    """Return how much more each broker's disks hold at the most, the most first.

    Where the plan was not simulated, all of it arrives before anything leaves.
    """
    when = _when(estimate)
    timed = True
    disks: defaultdict[int, _Disks] = defaultdict(_Disks)
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
    found = [ExtraDisk(broker, None) for broker in unknown]
    for broker, disk in disks.items():
        if disk.comes and broker not in unknown:
            if not timed:
                found.append(ExtraDisk(broker, sum(size for *_, size in disk.comes)))
                continue
            course = disk.course()
            peak = max(course, key=lambda held: held.bytes)
            found.append(ExtraDisk(broker, peak.bytes, peak.at_seconds, _thinned(course, peak)))
    return tuple(
        sorted(
            (one for one in found if one.bytes != 0),
            key=lambda one: (one.bytes is not None, -(one.bytes or 0), one.broker),
        )
    )


def _when(estimate: Estimate) -> Mapping[tuple[TopicPartition | None, int], tuple[float, float]]:
    """Return when each new replica is copied, after the start of an apply; log dirs by broker."""
    found: dict[tuple[TopicPartition | None, int], tuple[float, float]] = {
        (None, row.broker): (START_SECONDS, row.seconds)
        for row in estimate.rows
        if row.side is Side.LOG_DIRS and row.seconds is not None
    }
    if estimate.trace is not None:
        for at, copy in enumerate(estimate.trace.copies):
            begin, end = estimate.trace.when(at)
            found[copy.tp, copy.destination] = START_SECONDS + begin, START_SECONDS + end
    return found


NAMED = 3


@dataclass(frozen=True, slots=True)
class PeakUsage:
    """Who comes nearest to its capacity, None when nobody does; extra disk, the most first."""

    near_capacity: NearCapacity | None = None
    extra: tuple[ExtraDisk, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """Return what is to be said of it."""
        sentences = []
        if self.near_capacity is not None:
            words = self.near_capacity.words
            sentences.append(f"With the throttle on top {words}: clients there may wait longer.")
        if self.extra:
            shown = [one.words for one in self.extra[:NAMED]]
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
