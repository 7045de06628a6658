"""How much more each broker's disks hold over the time of a plan. Pure; see extra_disk.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.cluster.state import ClusterState
from core.load.verdicts import DISK_LOOK
from core.plan.disk_room import disks_of, free_bytes, whole_bytes
from core.plan.extra_disk import Extra, Held


@dataclass(frozen=True, slots=True)
class DiskLane:
    """One broker's disks: how much more they hold than before, from the start of an apply on.

    `used_bytes` is what is on them now, whoever put it there, of `whole_bytes`; None where brokers
    do not tell. What is produced meanwhile to what stays on them is not counted.
    """

    broker: int
    course: tuple[Held, ...]
    used_bytes: int | None = None
    whole_bytes: int | None = None

    @property
    def ends(self) -> float:
        """Return when the last bytes have come or been deleted, in seconds."""
        return self.course[-1].at_seconds

    @property
    def most_bytes(self) -> int:
        return max(held.bytes for held in self.course)

    @property
    def most_fraction(self) -> float | None:
        """Return how full they are at the most; None when that is not known."""
        return self.fraction(self.most_bytes)

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
        stays = Held(max(whole_seconds, last.at_seconds), last.bytes)
        for (start, first), (end, then) in pairwise((Held(0.0, 0), *self.course, stays)):
            if start == end:
                continue
            for at in range(min(int(start / width), count), min(math.ceil(end / width), count)):
                edges = (max(start, at * width), min(end, (at + 1) * width))
                seen = np.interp(edges, (start, end), (first, then))
                found[at] = max(found[at], *seen.tolist())
        return [(most, most > 0 and self.is_near(most)) for most in found]

    def is_near(self, more_bytes: float) -> bool:
        """Return whether they would be worth a look on the map while they hold so much more."""
        return (self.fraction(more_bytes) or 0.0) >= DISK_LOOK


def disk_lanes(state: ClusterState, extra: Iterable[Extra]) -> tuple[DiskLane, ...]:
    """Return the disks whose course is known, those nearest to full first."""
    return tuple(sorted(_lanes(state, extra), key=_fullest_first))


def _lanes(state: ClusterState, extra: Iterable[Extra]) -> Iterator[DiskLane]:
    for one in extra:
        if not one.course:
            continue
        known = state.broker_by_id.get(one.broker)
        disks = disks_of(known.log_dirs) if known is not None else ()
        whole, free = whole_bytes(disks), free_bytes(disks)
        used = None if whole is None or free is None else whole - free
        yield DiskLane(one.broker, one.course, used, whole)


def _fullest_first(disk: DiskLane) -> tuple[float, int, int]:
    return -(disk.most_fraction or 0.0), -disk.most_bytes, disk.broker
