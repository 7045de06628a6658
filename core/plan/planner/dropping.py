"""Which replicas go where partitions have too many, so that brokers get even: nothing is copied.

Each partition has dropped one by itself, of the fullest broker then; here others are kept instead.
"""

from __future__ import annotations

import numpy as np

from core.cluster.state import Bool, Int64
from core.load.snapshot import Float64
from core.plan.planner.measures import HOSTED, Measure
from core.plan.planner.placement import Placement
from core.plan.planner.problem import NOBODY

LEAST = 1e-9
"""What an exchange must gain at least, in squares of shares: less is noise."""
WORTH = 0.01
"""And one round of them, of what brokers are still off."""


def even_dropped(on: Placement) -> None:
    """Keep replicas that were dropped instead of followers, while brokers get more even by it.

    Who leads stays, and as many racks as there were.
    """
    columns = np.array([m for m in HOSTED if on.problem.active[m]], np.int64)
    if not len(columns):
        return
    gained = np.inf
    while gained > WORTH * _off(on, columns):
        gained = 0.0
        rows, kept, dropped = _pairs(on)
        gain = _gain(on, columns, rows, kept, dropped)
        best = np.lexsort((rows, -gain))
        best = best[gain[best] > LEAST]
        # One of each partition: what else it may exchange depends on that.
        best = best[np.sort(np.unique(rows[best], return_index=True)[1])]
        for pair in best.tolist():
            one = slice(pair, pair + 1)
            more = float(_gain(on, columns, rows[one], kept[one], dropped[one])[0])
            if more > LEAST:
                on.keep(int(rows[pair]), int(kept[pair]), int(dropped[pair]))
                gained += more


def _off(on: Placement, columns: Int64) -> float:
    loads = on.loads[on.problem.counts][:, columns]
    return float(((loads - 1) ** 2).sum())


def _pairs(on: Placement) -> tuple[Int64, Int64, Int64]:
    """Return (partition, follower that it keeps, replica that it dropped): all that may change."""
    given, at = on.problem, on.at
    fewer = (at != NOBODY).sum(axis=1) < (given.replicas != NOBODY).sum(axis=1)
    some = np.flatnonzero(fewer & given.asked & given.movable)
    found: list[tuple[Int64, Int64, Int64]] = []
    for place in range(1, at.shape[1]):
        for old in range(given.replicas.shape[1]):
            kept, dropped = at[some, place], given.replicas[some, old]
            may = (kept != NOBODY) & (dropped != NOBODY)
            may &= given.counts[kept] & given.gives[kept] & given.counts[dropped]
            may &= (given.replicas[some] == kept[:, None]).any(axis=1)
            may &= (at[some] != dropped[:, None]).all(axis=1)
            may &= kept != given.led_by[some]
            may &= _spread(on, some, kept, dropped)
            rows = some[may]
            found.append((rows, kept[may].astype(np.int64), dropped[may].astype(np.int64)))
    if not found:
        return some, some, some
    rows, kept, dropped = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, kept, dropped


def _spread(on: Placement, rows: Int64, kept: Int64, dropped: Int64) -> Bool:
    """Return where partitions are in as many racks, and the fullest is no fuller, afterwards."""
    racks, at = on.problem.racks, on.at[rows]
    theirs = np.where(at == NOBODY, NOBODY, racks[at])
    here, there = racks[kept], racks[dropped]
    left = (theirs == here[:, None]).sum(axis=1)
    joined = ((theirs == there[:, None]) & (at != kept[:, None])).sum(axis=1)
    return np.asarray(np.where(here == NOBODY, True, (there != NOBODY) & (joined < left)), np.bool_)


def _gain(on: Placement, columns: Int64, rows: Int64, kept: Int64, dropped: Int64) -> Float64:
    """Return by how much the two brokers of each pair get more even together."""
    items = on.problem.items[rows][:, columns]
    gain = np.zeros(len(rows))
    for brokers, sign in ((kept, -1.0), (dropped, 1.0)):
        loads = on.loads[brokers][:, columns] - 1
        then = loads + sign * items * on.per_share[brokers][:, columns]
        gain += (loads**2 - then**2).sum(axis=1)
    for measure in on.bound:
        if measure in HOSTED:
            more = on.problem.items[rows, measure] * on.per_share[dropped, measure]
            gain[more > on.spare(dropped, Measure(measure))] = 0.0
    return gain
