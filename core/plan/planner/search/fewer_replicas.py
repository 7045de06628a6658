"""Removes surplus replicas so that brokers get even; nothing is copied.

Each partition has dropped one by itself, of the fullest broker then. Here brokers exchange them: a
follower that was to stay goes, and one that was to go returns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from core.cluster.state import Bool, Int32, Int64
from core.load.load import Float64
from core.plan.planner.model.measures import NOBODY, REPLICA_MEASURES
from core.plan.planner.model.placement import Placement
from core.plan.planner.plan_request import NO_LIMITS, Limits

MIN_GAIN = 1e-9
"""What exchanges must gain at least, in squares of shares: less is noise."""
ROUNDS = 12


class _Exchanges(NamedTuple):
    """What may be exchanged: in which partition, and on which brokers; [n] each."""

    rows: Int64
    source: Int32
    destination: Int32

    def some(self, which: Int64) -> _Exchanges:
        return _Exchanges(self.rows[which], self.source[which], self.destination[which])


def exchange_dropped(on: Placement, limits: Limits = NO_LIMITS) -> None:
    """Exchange replicas that go for followers that stay, while brokers get more even by it.

    Who leads stays, and racks are spread as they are. Of the limits only time counts.
    """
    columns = np.array([m for m in REPLICA_MEASURES if on.problem.active[m]], np.int64)
    if not len(columns):
        return
    for _ in range(ROUNDS):
        able = _able(on)
        gains = _gains(on, columns, able, on.problem.items[able.rows])
        best = np.lexsort((able.rows, -gains))
        best = best[gains[best] > MIN_GAIN]
        # One of each partition: what else it may exchange depends on that.
        able = able.some(best[np.sort(np.unique(able.rows[best], return_index=True)[1])])
        gained = 0.0
        for lot in _lots(able, on.problem.brokers):
            if limits.time_is_up(on):
                return
            gained += _exchange(on, columns, able.some(lot))
        if gained <= MIN_GAIN:
            return


def _able(on: Placement) -> _Exchanges:
    """Return all that may be exchanged, each replica that went for each follower."""
    given, at = on.problem, on.at
    fewer = (at != NOBODY).sum(axis=1) < (given.replicas != NOBODY).sum(axis=1)
    some = np.flatnonzero(fewer & given.touchable & given.movable)
    found = [_Exchanges(some[:0], at[:0, 0], at[:0, 0])]
    for place in range(1, at.shape[1]):
        for old in range(given.replicas.shape[1]):
            source, destination = at[some, place], given.replicas[some, old]
            may = (source != NOBODY) & (destination != NOBODY) & (source != given.leader_row[some])
            may &= given.counts[source] & given.gives[source] & given.counts[destination]
            may &= (at[some] != destination[:, None]).all(axis=1)
            may &= _spread(on, some, source, destination)
            found.append(_Exchanges(some[may], source[may], destination[may]))
    return _Exchanges(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _spread(on: Placement, rows: Int64, source: Int32, destination: Int32) -> Bool:
    """Return where no rack gets fuller than the one that the follower leaves is now.

    Where that has none, no rack gets fuller than the fullest of the others.
    """
    racks, at = on.problem.racks, on.at[rows]
    names = np.unique(racks[racks != NOBODY])
    if not len(names):
        return np.ones(len(rows), np.bool_)
    here, there = racks[source], racks[destination]
    stay = np.where((at == NOBODY) | (at == source[:, None]), NOBODY, racks[at])
    each = (stay[:, :, None] == names).sum(axis=1)
    most = (stay == here[:, None]).sum(axis=1) + 1
    most = np.where(here == NOBODY, np.maximum(each.max(axis=1), 1), most)
    joined = (stay == there[:, None]).sum(axis=1)
    return np.asarray(np.where(there == NOBODY, here == NOBODY, joined < most), np.bool_)


def _gains(on: Placement, columns: Int64, able: _Exchanges, items: Float64) -> Float64:
    """Return by how much the two brokers of each get more even if so much [n, MEASURES] goes."""
    gains = np.zeros(len(items))
    for brokers, sign in ((able.source, -1.0), (able.destination, 1.0)):
        off = on.loads[brokers][:, columns] - 1
        then = off + sign * items[:, columns] * on.per_share[brokers][:, columns]
        gains += (off**2 - then**2).sum(axis=1)
    return gains


def _lots(able: _Exchanges, brokers: int) -> list[Int64]:
    """Return which exchanges are of the same two brokers, the lot with the best of all first."""
    keys = able.source.astype(np.int64) * brokers + able.destination
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    return sorted(np.split(order, starts[1:]), key=lambda lot: int(lot[0])) if len(order) else []


def _exchange(on: Placement, columns: Int64, lot: _Exchanges) -> float:
    """Exchange as many of a lot, best first, as make its two brokers most even; return the gain."""
    items = np.cumsum(on.problem.items[lot.rows], axis=0)
    gains = _gains(on, columns, lot, items)
    destination = lot.destination.astype(np.int64)
    for measure in on.bound:
        if measure in REPLICA_MEASURES:
            more = items[:, measure] * on.per_share[destination, measure]
            gains[more > on.spare(destination, measure)] = 0.0
    most = int(np.argmax(gains))
    if gains[most] <= MIN_GAIN:
        return 0.0
    on.exchange_all(lot.rows[: most + 1], int(lot.source[0]), int(destination[0]))
    return float(gains[most])
