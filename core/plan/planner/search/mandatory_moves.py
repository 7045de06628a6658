"""What has to move or go whatever it costs: off brokers that leave, doubled racks, other numbers.

Each replica goes where it keeps brokers as even as can be; the largest choose first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from core.cluster.state import Bool, Int32, Int64
from core.load.load import Float64
from core.plan.planner.infeasible import InfeasibleReplica, Obstacle, why_no_broker, why_untouchable
from core.plan.planner.model.measures import NOBODY, REPLICA_MEASURES, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.racks import barred
from core.plan.planner.plan_request import NO_LIMITS, Field, Limits, probe_partitions


def empty_brokers(
    placement: Placement, leaving: Collection[int], limits: Limits
) -> list[InfeasibleReplica]:
    """Take every replica off these broker rows; return those that must stay."""
    problem = placement.problem
    held = [
        (int(p), broker)
        for broker in leaving
        for p in placement.held(broker)
        if problem.touchable[p]
    ]
    held.sort(key=lambda replica: (-problem.items[replica[0], Measure.DISK], replica))
    infeasible = []
    for partition, broker in held:
        why: Obstacle | Field | None
        if problem.movable[partition]:
            why = _put(placement, partition, broker, limits)
        else:
            why = why_untouchable(problem, partition)
        if why:
            infeasible.append(InfeasibleReplica(partition, why))
    return infeasible


def repair_racks(placement: Placement, limits: Limits) -> list[InfeasibleReplica]:
    """Move replicas that share a rack while another rack holds none; return what stays doubled."""
    problem = placement.problem
    if (problem.racks == NOBODY).all():
        return []
    rows = np.flatnonzero(problem.touchable).tolist()
    return [InfeasibleReplica(row, why) for row in rows if (why := _spread(placement, row, limits))]


def _spread(placement: Placement, row: int, limits: Limits) -> Obstacle | Field | None:
    """Move replicas of one partition until no rack is doubled needlessly; say why it cannot be."""
    problem = placement.problem
    everywhere = {int(rack) for rack in problem.racks[problem.counts] if rack != NOBODY}
    while True:
        held = placement.staying(row)
        racks = [int(problem.racks[b]) for b in held]
        doubled = [b for b, rack in zip(held, racks, strict=True) if racks.count(rack) > 1]
        free = everywhere - set(racks)
        if not doubled or not free:
            return None
        if not problem.movable[row]:
            return why_untouchable(problem, row)
        only = np.isin(problem.racks, list(free))
        # What leaves anyway first, then followers: a leader that stays put disturbs nobody.
        able = [b for b in reversed(doubled) if problem.gives[b]]
        leads = {held[0], int(problem.leader_row[row])}
        able.sort(key=lambda b: (bool(problem.counts[b]), b in leads))
        why: Obstacle | Field | None = Obstacle.LEFT_ALONE
        for broker in able:
            why = _put(placement, row, broker, limits, only=only)
            if why is None:
                break
        if why is not None:
            return why


def _put(
    placement: Placement,
    partition: int,
    source: int,
    limits: Limits,
    *,
    only: np.ndarray | None = None,
) -> Obstacle | Field | None:
    """Put a replica on the broker that stays nearest to its fair share with it; else say why not.

    `only` are the brokers that would do; who holds one of the partition cannot take another.
    """
    problem = placement.problem
    if reached := _reached_limit(placement, partition, limits, source):
        return reached
    at = placement.at[partition : partition + 1]
    takes = problem.counts if only is None else problem.counts & only
    to = np.setdiff1d(np.flatnonzero(takes), at)
    if not len(to):
        held = at[at != NOBODY]
        return why_no_broker(problem, held) if only is None else Obstacle.RACKS
    bad = barred(at, source, to, problem.racks)[0]
    if bad.all():
        return Obstacle.RACKS
    leads = bool(at[0, 0] == source)
    heir = _new_leader_place(placement, partition, to[~bad]) if leads else None
    for why, does in _obstacles(placement, partition, to, limits, leads=leads and heir is None):
        bad |= does
        if bad.all():
            return why
    to = to[~bad]
    if problem.racks[source] == NOBODY:  # less bars it then: a rack that holds fewest is best
        others = problem.racks[at[0][(at[0] != NOBODY) & (at[0] != source)]]
        shared = (problem.racks[to][:, None] == others[None, :]).sum(axis=1)
        to = to[shared == shared.min()]
    if heir is not None:
        placement.lead(partition, heir)
    placement.move(partition, source, _best_broker(placement, partition, to))
    return None


def _reached_limit(
    placement: Placement, row: int, limits: Limits, *brokers: int
) -> Obstacle | Field | None:
    """Return the limit that keeps one more replica of a partition from being copied."""
    size = float(placement.problem.needs_bytes[row])
    reached = limits.reached(placement, size, *brokers)
    return Obstacle.UNSIZED if reached is Field.MAX_BYTES and size == np.inf else reached


def _obstacles(
    placement: Placement, row: int, to: Int64, limits: Limits, *, leads: bool
) -> Iterator[tuple[Obstacle | Field, Bool]]:
    """Yield what keeps which of these brokers from taking a replica, one that `leads` perhaps."""
    size = placement.problem.needs_bytes[row]
    small = size > placement.one_room_bytes[to]
    yield (Obstacle.ROOM if np.isfinite(size) else Obstacle.UNSIZED), small
    yield Field.MAX_REPLICAS, ~placement.carry(row, to, Measure.REPLICAS)
    able = placement.carry(row, to, Measure.IN)
    yield Obstacle.CAPACITY, ~(able & placement.carry(row, to, Measure.OUT)) if leads else ~able
    yield Field.MAX_PER_BROKER, ~limits.ready(placement)[to]


def _new_leader_place(placement: Placement, row: int, to: Int64) -> int | None:
    """Return the place of the follower that should lead where none of these could send so much."""
    if placement.carry(row, to, Measure.OUT).any():
        return None
    problem, at = placement.problem, placement.at[row]
    able = placement.may_lead[row] & problem.counts[at] & placement.carry(row, at, Measure.OUT)
    return next((place for place in range(1, len(at)) if able[place]), None)


def _best_broker(placement: Placement, row: int, to: Int64) -> int:
    """Return on which of these brokers a replica leaves all evenest.

    Brokers that are to be filled come first, as long as that leads none above the band.
    """
    problem = placement.problem
    columns = np.array([m for m in REPLICA_MEASURES if problem.active[m]], np.int64)
    now = placement.loads[to][:, columns]
    then = now + problem.items[row, columns] * placement.per_share[to][:, columns]
    filled = problem.takes[to] & (then <= 1 + problem.band).all(axis=1)
    worse = ((then - 1) ** 2 - (now - 1) ** 2).sum(axis=1)
    return int(to[int(np.argmin(np.where(filled, worse, np.inf) if filled.any() else worse))])


def set_replica_count(
    placement: Placement, replicas: int, limits: Limits
) -> list[InfeasibleReplica]:
    """Give every partition that is asked for so many replicas; return what it lacks or keeps.

    But those that clients are probed on: they have one each, by design.

    New ones go to racks that hold fewest of the partition, then where brokers stay evenest. What
    goes is of a rack that holds two, if any does, else on a broker without a rack, be it the
    preferred leader: first what is on a broker that leaves, then a follower: one that cannot lead,
    then one that does not, then of the fullest broker. `exchange_dropped` exchanges followers then.
    """
    stay, problem = [], placement.problem
    for row in np.flatnonzero(problem.touchable & ~probe_partitions(problem.state)).tolist():
        while (held := len(placement.staying(row))) != replicas:
            why: Obstacle | Field | None
            if not problem.movable[row]:
                why = why_untouchable(problem, row)
            elif held > replicas:
                why = _drop_replica(placement, row)
            else:
                why = _added(placement, row, limits)
            if why:
                stay += [InfeasibleReplica(row, why)] * abs(held - replicas)
                break
    return stay


def _drop_replica(placement: Placement, row: int) -> Obstacle | None:
    """Take the replica away that a partition can do without best."""
    problem = placement.problem
    held = [int(b) for b in placement.at[row] if b != NOBODY]
    racks = [int(problem.racks[b]) for b in held]
    may = placement.may_lead[row]
    # The preferred leader goes only where it has to, for its broker or for racks, and there is one
    # that can lead.
    heir = next((at for at in range(1, len(held)) if may[at] and problem.counts[held[at]]), None)
    places = [at for at in range(1, len(held)) if problem.gives[held[at]]]
    if not problem.counts[held[0]] and problem.gives[held[0]] and heir is not None:
        places.append(0)
    shared = [racks.count(rack) if rack != NOBODY else 0 for rack in racks]
    if max(shared) > 1:  # a rack of its own is not given up while another one holds two
        places = [at for at in places if shared[at] > 1]
    elif bare := [at for at in places if racks[at] == NOBODY]:  # nor while one is without
        places = bare
    elif racks[0] == NOBODY and problem.gives[held[0]] and heir is not None and any(shared):
        places = [0]
    if not places:
        return Obstacle.LEFT_ALONE

    def spared(place: int) -> tuple[bool, bool, bool, int, float]:
        broker, leads = held[place], int(problem.leader_row[row])
        load = float(placement.loads[broker].max())
        idle = not may[place]
        return not problem.counts[broker], idle, broker != leads, shared[place], load

    place = max(places, key=spared)
    if place == 0 and heir is not None:
        placement.lead(row, heir)
    placement.drop(row, held[place])
    return None


def _added(placement: Placement, row: int, limits: Limits) -> Obstacle | Field | None:
    problem = placement.problem
    held = placement.at[row][placement.at[row] != NOBODY]
    if reached := _reached_limit(placement, row, limits):
        return reached
    able = problem.counts.copy()
    able[held] = False
    if not able.any():
        return why_no_broker(problem, held)
    used = np.array([(problem.racks[held] == rack).sum() for rack in problem.racks])
    used[problem.racks == NOBODY] = 0
    kinds = len(np.unique(problem.racks[problem.racks != NOBODY]))
    # Where replicas are spread evenly, the fullest rack has so many.
    evenly = -(-(len(held) + 1) // kinds) if kinds else len(held) + 1
    able &= used < max(int(used.max()), evenly)
    if not able.any():
        return Obstacle.RACKS
    everybody = np.arange(problem.brokers)
    for why, does in _obstacles(placement, row, everybody, limits, leads=False):
        able &= ~does
        if not able.any():
            return why
    to = np.flatnonzero(able & (used == used[able].min()))
    placement.add(row, _best_broker(placement, row, to))
    return None


def replace_brokers(
    placement: Placement, pairs: Sequence[tuple[int, int]], limits: Limits
) -> list[InfeasibleReplica]:
    """Put all replicas of the first broker of each pair on the second; return what must stay."""
    problem, stay = placement.problem, []
    for old, new in pairs:
        to = np.array([new], np.int64)
        held = placement.held(old)
        for partition in np.sort(held[problem.touchable[held]]).tolist():
            at = placement.at[partition : partition + 1]
            why = _reached_limit(placement, partition, limits, old, new)
            if not problem.movable[partition]:
                why = why_untouchable(problem, partition)
            elif (at == new).any():
                why = Obstacle.HOLDS_ONE
            elif barred(at, old, to, problem.racks)[0, 0]:
                why = Obstacle.RACKS
            else:
                leads = bool(at[0, 0] == old)
                obstacles = _obstacles(placement, partition, to, limits, leads=leads)
                why = next((obstacle for obstacle, does in obstacles if does[0]), why)
            if why:
                stay.append(InfeasibleReplica(partition, why))
            else:
                placement.move(partition, old, new)
    return stay


MIN_GAIN = 1e-9
"""What exchanges must gain at least, in squares of shares: less is noise."""
ROUNDS = 12


class _Exchanges(NamedTuple):
    """What may be exchanged: in which partition, and on which brokers; [n] each."""

    rows: Int64
    source: Int32
    destination: Int32

    def rows_at(self, which: Int64) -> _Exchanges:
        return _Exchanges(self.rows[which], self.source[which], self.destination[which])


def exchange_dropped(on: Placement, limits: Limits = NO_LIMITS) -> None:
    """Exchange replicas that go for followers that stay, while brokers get more even by it.

    Who leads stays, and racks are spread as they are. Of the limits only time counts.
    """
    columns = np.array([m for m in REPLICA_MEASURES if on.problem.active[m]], np.int64)
    if not len(columns):
        return
    for _ in range(ROUNDS):
        able = _possible_exchanges(on)
        gains = _gains(on, columns, able, on.problem.items[able.rows])
        best = np.lexsort((able.rows, -gains))
        best = best[gains[best] > MIN_GAIN]
        # One of each partition: what else it may exchange depends on that.
        able = able.rows_at(best[np.sort(np.unique(able.rows[best], return_index=True)[1])])
        gained = 0.0
        for lot in _group_by_brokers(able, on.problem.brokers):
            if limits.time_is_up(on):
                return
            gained += _exchange(on, columns, able.rows_at(lot))
        if gained <= MIN_GAIN:
            return


def _possible_exchanges(on: Placement) -> _Exchanges:
    """Return all that may be exchanged, each replica that went for each follower."""
    given, at = on.problem, on.at
    fewer = (at != NOBODY).sum(axis=1) < (given.replicas != NOBODY).sum(axis=1)
    rows = np.flatnonzero(fewer & given.touchable & given.movable)
    exchanges = [_Exchanges(rows[:0], at[:0, 0], at[:0, 0])]
    for place in range(1, at.shape[1]):
        for old in range(given.replicas.shape[1]):
            source, destination = at[rows, place], given.replicas[rows, old]
            may = (source != NOBODY) & (destination != NOBODY) & (source != given.leader_row[rows])
            may &= given.counts[source] & given.gives[source] & given.counts[destination]
            may &= (at[rows] != destination[:, None]).all(axis=1)
            may &= _keeps_spread(on, rows, source, destination)
            exchanges.append(_Exchanges(rows[may], source[may], destination[may]))
    return _Exchanges(*(np.concatenate(columns) for columns in zip(*exchanges, strict=True)))


def _keeps_spread(on: Placement, rows: Int64, source: Int32, destination: Int32) -> Bool:
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
    limit = (stay == here[:, None]).sum(axis=1) + 1
    limit = np.where(here == NOBODY, np.maximum(each.max(axis=1), 1), limit)
    joined = (stay == there[:, None]).sum(axis=1)
    return np.asarray(np.where(there == NOBODY, here == NOBODY, joined < limit), np.bool_)


def _gains(on: Placement, columns: Int64, able: _Exchanges, items: Float64) -> Float64:
    """Return by how much the two brokers of each get more even if so much [n, MEASURES] goes."""
    gains = np.zeros(len(items))
    for brokers, sign in ((able.source, -1.0), (able.destination, 1.0)):
        off = on.loads[brokers][:, columns] - 1
        then = off + sign * items[:, columns] * on.per_share[brokers][:, columns]
        gains += (off**2 - then**2).sum(axis=1)
    return gains


def _group_by_brokers(able: _Exchanges, brokers: int) -> list[Int64]:
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
    best = int(np.argmax(gains))
    if gains[best] <= MIN_GAIN:
        return 0.0
    on.exchange_all(lot.rows[: best + 1], int(lot.source[0]), int(destination[0]))
    return float(gains[best])
