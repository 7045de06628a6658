"""What has to move whatever it costs: replicas off brokers that leave, racks that are doubled.

Each replica goes where it keeps brokers as even as can be; the largest choose first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from core.cluster.state import Int32, Int64
from core.load.snapshot import Float64
from core.plan.planner.levels import Levels
from core.plan.planner.measures import HOSTED, Measure
from core.plan.planner.moving import Limits, barred
from core.plan.planner.placement import Placement
from core.plan.planner.problem import NOBODY


def empty(placement: Placement, leaving: Collection[int], limits: Limits) -> list[tuple[int, int]]:
    """Take every replica off these broker rows; return (partition, broker) that must stay.

    One stays where its partition may not be touched, nobody may take it, or a limit is reached.
    """
    problem = placement.problem
    held = [
        (int(p), broker) for broker in leaving for p in placement.held(broker) if problem.asked[p]
    ]
    held.sort(key=lambda one: (-problem.items[one[0], Measure.DISK], one))
    return [
        (partition, broker)
        for partition, broker in held
        if not (problem.movable[partition] and _put(placement, partition, broker, limits))
    ]


def repair_racks(placement: Placement, rows: Int64, limits: Limits) -> list[int]:
    """Move replicas that share a rack while another rack holds none; return what stays doubled."""
    racks = placement.problem.racks
    if (racks == NOBODY).all():
        return []
    return [int(row) for row in rows if not _spread(placement, int(row), limits)]


def _spread(placement: Placement, row: int, limits: Limits) -> bool:
    """Move replicas of one partition until no rack is doubled needlessly; False if it cannot."""
    problem = placement.problem
    everywhere = {int(rack) for rack in problem.racks[problem.takes] if rack != NOBODY}
    while True:
        held = [int(b) for b in placement.at[row] if b != NOBODY]
        racks = [int(problem.racks[b]) for b in held]
        doubled = [b for b, rack in zip(held, racks, strict=True) if racks.count(rack) > 1]
        free = everywhere - set(racks)
        if not doubled or not free:
            return True
        only = np.isin(problem.racks, list(free))
        # Followers first: a leader that stays put disturbs nobody.
        movable = problem.movable[row] and any(
            _put(placement, row, broker, limits, only=only) for broker in reversed(doubled)
        )
        if not movable:
            return False


def _put(
    placement: Placement,
    partition: int,
    source: int,
    limits: Limits,
    *,
    only: np.ndarray | None = None,
) -> bool:
    """Put a replica on the broker that stays nearest to its fair share with it."""
    problem = placement.problem
    size = float(problem.items[partition, Measure.DISK])
    if not limits.allow(placement, size):
        return False
    takes = problem.takes.copy() if only is None else problem.takes & only
    takes[source] = False
    to = np.flatnonzero(takes)
    if not len(to):
        return False
    at = placement.at[partition : partition + 1]
    bad = barred(at, source, to, problem.racks)[0] | (size > placement.room_bytes[to])
    if bad.all():
        return False
    worse = _worse(placement, partition, to)
    worse[bad] = np.inf
    placement.move(partition, source, int(to[int(np.argmin(worse))]))
    return True


def resize(placement: Placement, replicas: int, limits: Limits) -> list[int]:
    """Give every partition that may be touched so many replicas; return those that keep theirs.

    New ones go to racks that hold fewest of the partition, then where brokers stay evenest. What
    goes is a follower: one that cannot lead first, then of the fullest rack, then of the fullest
    broker.
    """
    stay = []
    for row in np.flatnonzero(placement.problem.movable).tolist():
        while (held := int((placement.at[row] != NOBODY).sum())) != replicas:
            if held > replicas:
                placement.drop(row, _spare(placement, row))
            elif not _added(placement, row, limits):
                stay.append(row)
                break
    return stay


def _spare(placement: Placement, row: int) -> int:
    """Return the follower of which a partition can do without best."""
    problem = placement.problem
    held = [int(b) for b in placement.at[row] if b != NOBODY]
    racks = [int(problem.racks[b]) for b in held]

    def spared(place: int) -> tuple[bool, int, float]:
        broker = held[place]
        together = racks.count(racks[place]) if racks[place] != NOBODY else 0
        return not placement.may_lead[row, place], together, float(placement.loads[broker].max())

    return held[max(range(1, len(held)), key=spared)]


def _added(placement: Placement, row: int, limits: Limits) -> bool:
    problem = placement.problem
    size = float(problem.items[row, Measure.DISK])
    held = placement.at[row][placement.at[row] != NOBODY]
    able = problem.takes & (placement.room_bytes >= size)
    able[held] = False
    if not limits.allow(placement, size):
        return False
    used = np.array([(problem.racks[held] == rack).sum() for rack in problem.racks])
    used[problem.racks == NOBODY] = 0
    able &= used < max(int(used.max()), _evenly(problem.racks, len(held) + 1))
    if not able.any():
        return False
    to = np.flatnonzero(able & (used == used[able].min()))
    placement.add(row, int(to[int(np.argmin(_worse(placement, row, to)))]))
    return True


def _evenly(racks: Int32, replicas: int) -> int:
    """Return how many of so many replicas the fullest rack has where they are spread evenly."""
    kinds = len(np.unique(racks[racks != NOBODY]))
    return -(-replicas // kinds) if kinds else replicas


def _worse(placement: Placement, row: int, to: Int64) -> Float64:
    """Return how much less even each of these brokers gets by one replica of a partition."""
    problem = placement.problem
    columns = np.array([m for m in HOSTED if problem.active[m]], np.int64)
    even = Levels(np.ones(len(columns)), np.ones(len(columns)), True)
    loads = placement.loads[to][:, columns]
    then = loads + problem.items[row, columns][None, :] * placement.per_share[to][:, columns]
    return np.asarray((even.distance(then) - even.distance(loads)).sum(axis=1))


def replace(
    placement: Placement, pairs: Sequence[tuple[int, int]], limits: Limits
) -> list[tuple[int, int]]:
    """Put all replicas of the first broker of each pair on the second; return what must stay."""
    problem, stay = placement.problem, []
    for old, new in pairs:
        to = np.array([new], np.int64)
        held = placement.held(old)
        for partition in np.sort(held[problem.asked[held]]).tolist():
            size = float(problem.items[partition, Measure.DISK])
            at = placement.at[partition : partition + 1]
            if (
                not problem.movable[partition]
                or barred(at, old, to, problem.racks)[0, 0]
                or size > placement.room_bytes[new]
                or not limits.allow(placement, size)
            ):
                stay.append((partition, old))
            else:
                placement.move(partition, old, new)
    return stay
