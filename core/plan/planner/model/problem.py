"""The problem that a planner solves, as arrays: what may move, where to, and how even is even.

Brokers are rows in the order of `ClusterState.brokers`, followed by brokers that only assignments
name; partitions are rows of the state. Values are of the state's own units.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.load.load import Float64, Load
from core.plan.disk_space import disks_of, free_bytes, incoming_bytes, whole_bytes
from core.plan.effect import BAND
from core.plan.plan import Plan, moves_with_rows
from core.plan.planner.model.measures import (
    LEADER_MEASURES,
    MEASURES,
    NOBODY,
    REPLICA_MEASURES,
    Measure,
    capacities,
)
from core.plan.planner.model.racks import rack_shares

FULL = 0.90
"""The part of a disk that a plan may fill; what leaves it counts until it has left."""
IDLE = 0.01
"""What brokers send is evened out if it is more than this part of what is produced."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What a planner works on; P partitions, W the widest assignment, B brokers.

    `items` [P, MEASURES] is what one replica (its leader, for measures of leaders) of each
    partition adds to a broker; `active` says which measures are known well enough to be evened.
    """

    state: ClusterState
    ids: Int32
    """Broker ids, shape [B]."""
    replicas: Int32
    """Broker rows in assignment order, preferred leader first, shape [P, W]; NOBODY pads."""
    held: Int64
    """How many replicas each partition is to have, shape [P]."""
    racks: Int32
    """Shape [B]; -1 without a rack."""
    items: Float64
    active: Bool
    band: float
    movable: Bool
    """Which partitions may be touched, shape [P]."""
    touchable: Bool
    """Which partitions the operator lets be touched, shape [P]."""
    may_lead: Bool
    """Which replicas can become leader at once, shape [P, W]."""
    leader_row: Int32
    """The broker row that leads each partition now, shape [P]; NOBODY without a leader."""
    counts: Bool
    """Which brokers should carry their fair share, shape [B]."""
    takes: Bool
    """Which of them may receive replicas."""
    gives: Bool
    """Which brokers may give replicas away."""
    parts: Float64
    """Each broker's fair part of every measure as racks allow it, shape [B, MEASURES]."""
    even_parts: Float64
    """The same if racks did not matter."""
    room_bytes: Float64
    """Free bytes of each broker that a plan may fill, shape [B]; inf where unknown.

    What reassignments in flight are still to bring has its room already.
    """
    largest_bytes: Float64
    """The same of the emptiest of its disks: a replica lies on one of them, whole."""
    needs_bytes: Float64
    """What a copy of each partition takes, shape [P]; inf where nobody knows.

    Then no limit of bytes and no known room is enough.
    """
    capacity: Float64
    """What each broker can carry of every measure, shape [B, MEASURES]; inf where unknown."""
    sure: Float64
    """The items as checks reckon: what is not known is nothing, not as it is for the others."""
    hidden: Float64
    """What brokers hold of topics that nobody may see or move: bytes, replicas, [B, MEASURES]."""

    @property
    def brokers(self) -> int:
        return len(self.ids)


def build_problem(
    state: ClusterState,
    load: Load,
    *,
    band: float = BAND,
    excluded: Collection[int] = (),
    leaving: Collection[int] = (),
    filling: Collection[int] | None = None,
    frozen: Bool | None = None,
    target_replicas: int | None = None,
    max_replicas: float = np.inf,
) -> Problem:
    """Return the problem of evening `state` out.

    `excluded` brokers are left as they are, `frozen` partitions (shape [P]) too; `leaving` ones
    get no share of what they hold; only `filling` ones receive, if they are named. Partitions in
    flight, out of sync, with replicas on unknown brokers or without a leader are left alone.
    With `target_replicas` leaders send to as many followers as movable partitions will have.
    """
    ids = np.union1d(state.broker_ids, state.replica_broker).astype(np.int32)
    at = np.searchsorted(ids, state.replica_broker).astype(np.int32)
    replicas = _replica_matrix(state, at, target_replicas or 1)
    alive = _is_among(ids, state.alive_ids)
    left = _is_among(ids, leaving)
    able = alive & ~_is_among(ids, excluded) & ~left
    held = (replicas >= 0).sum(axis=1)
    movable = _movable(state, replicas, alive, left) & (True if frozen is None else ~frozen)
    if target_replicas is not None:
        held = np.where(movable, target_replicas, held)
    items = _items(state, load, held)
    unknown = np.isnan([load.in_bytes_per_s, load.out_bytes_per_s])
    is_guessed = bool((unknown.any(axis=1) & ~unknown.all(axis=1)).any())
    sure = _items(state, _known_load(load), held) if is_guessed else items
    room_bytes, largest_bytes = _room(state, ids)
    names = [b.rack if (b := state.broker_by_id.get(broker)) else None for broker in ids.tolist()]
    numbers = {name: at for at, name in enumerate(sorted({n for n in names if n is not None}))}
    racks = np.array([NOBODY if n is None else numbers[n] for n in names], np.int32)
    even = _parts(state, ids, able)
    whole = items.sum(axis=0)
    active = whole > 0
    active[[Measure.OUT, Measure.MAY_SEND]] &= whole[Measure.OUT] > IDLE * whole[Measure.IN]
    leader_row = np.minimum(np.searchsorted(ids, state.leader), len(ids) - 1).astype(np.int32)
    in_sync = _replica_matrix(state, state.in_sync.astype(np.int32), replicas.shape[1]) == 1
    hidden = np.zeros((len(ids), MEASURES))
    known = np.searchsorted(ids, state.broker_ids)
    hidden[known, Measure.DISK] = state.hidden_bytes
    hidden[known, Measure.REPLICAS] = state.hidden_replicas
    return Problem(
        state=state,
        ids=ids,
        replicas=replicas,
        held=held,
        racks=racks,
        items=items,
        active=np.asarray(active, np.bool_),
        band=band,
        movable=movable,
        touchable=np.ones(state.partition_count, np.bool_) if frozen is None else ~frozen,
        may_lead=np.asarray(in_sync & (replicas >= 0) & alive[replicas], np.bool_),
        leader_row=np.where(ids[leader_row] == state.leader, leader_row, np.int32(NOBODY)),
        counts=able,
        takes=able if filling is None else able & _is_among(ids, filling),
        gives=able | left,
        parts=_parts_by_rack(even, items, held, racks, able),
        even_parts=even,
        room_bytes=room_bytes,
        largest_bytes=largest_bytes,
        needs_bytes=np.where(state.partition_size_bytes < 0, np.inf, items[:, Measure.DISK]),
        capacity=capacities(state, ids, max_replicas),
        sure=sure,
        hidden=hidden,
    )


def with_replica_counts(given: Problem, held: Int64) -> Problem:
    """Return the problem of partitions with so many replicas: what leaders send, racks' shares."""
    items = given.items.copy()
    sure = items if given.sure is given.items else given.sure.copy()
    followers = np.maximum(held - 1, 0) - np.maximum(given.held - 1, 0)
    for values in (items,) if sure is items else (items, sure):
        for measure in (Measure.OUT, Measure.MAY_SEND):
            values[:, measure] += values[:, Measure.IN] * followers
    parts = _parts_by_rack(given.even_parts, items, held, given.racks, given.counts)
    return replace(given, held=held, items=items, parts=parts, sure=sure)


def _is_among(ids: Int32, chosen: Collection[int]) -> Bool:
    return np.isin(ids, np.fromiter(chosen, np.int32, len(chosen)))


def _replica_matrix(state: ClusterState, values: Int32, min_width: int) -> Int32:
    """Return per-replica values as a matrix [P, W] padded with NOBODY, `min_width` wide."""
    counts = np.diff(state.replica_start)
    width = int(counts.max()) if len(counts) else 1
    matrix = np.full((len(counts), max(width, min_width)), NOBODY, np.int32)
    column = np.arange(state.replica_count) - state.replica_start[state.partition_of_replica]
    matrix[state.partition_of_replica, column] = values
    return matrix


def _known_load(load: Load) -> Load:
    """Return the load with nothing for what is not known; then nothing counts that is read, too."""
    produced = load.in_bytes_per_s
    read = np.where(np.isnan(produced), 0.0, np.nan_to_num(load.out_bytes_per_s))
    return replace(load, in_bytes_per_s=np.nan_to_num(produced), out_bytes_per_s=read)


def _items(state: ClusterState, load: Load, replicas: Int64) -> Float64:
    produced, consumed = load.in_bytes_per_s, load.out_bytes_per_s
    sizes = state.partition_size_bytes
    rate = _estimate_unknown(produced, sizes)
    read = _estimate_unknown(consumed, rate)
    sent = read + rate * np.maximum(replicas - 1, 0)
    items = np.zeros((state.partition_count, MEASURES))
    items[:, Measure.DISK] = np.maximum(sizes, 0)
    items[:, Measure.IN] = items[:, Measure.LEADER_IN] = rate
    items[:, Measure.REPLICAS] = items[:, Measure.LEADERS] = 1
    items[:, Measure.OUT] = items[:, Measure.MAY_SEND] = sent
    return items


def _estimate_unknown(values: Float64, by: npt.NDArray[Any]) -> Float64:
    """Return `values`, those not known as the known ones are for their `by`, else their mean.

    As nothing they would make whoever has them look idle, and others copy for that. Where none is
    known all are nothing.
    """
    known = ~np.isnan(values)
    if known.all() or not known.any():
        return np.nan_to_num(values)
    sized = known & (by > 0)
    if not sized.any():
        return np.where(known, values, values[known].mean())
    ratio = values[sized].sum() / by[sized].sum()
    return np.where(known, values, np.where(by > 0, by * ratio, values[known].mean()))


def _movable(state: ClusterState, replicas: Int32, alive: Bool, left: Bool) -> Bool:
    """Return which partitions can be moved now: led, at rest, all that stays alive and in sync."""
    held = replicas >= 0
    whole = ((alive | left)[replicas] | ~held).all(axis=1)
    late = _replica_matrix(state, (~state.in_sync).astype(np.int32), replicas.shape[1]) == 1
    behind = (late & ~left[replicas]).any(axis=1)
    able = whole & ~state.moving & ~behind & (state.leader >= 0) & held.any(axis=1)
    return np.asarray(able, np.bool_)


def _parts(state: ClusterState, ids: Int32, able: Bool) -> Float64:
    """Return fair parts by capacity where it is known of all that may hold something, else even."""
    parts = np.zeros((len(ids), MEASURES))
    if not able.any():
        return parts
    known = [state.broker_by_id[broker] for broker in ids[able].tolist()]
    disk = [whole_bytes(disks_of(b.log_dirs)) for b in known]
    taken = [b.in_capacity_bytes_per_s for b in known]
    sent = [b.out_capacity_bytes_per_s for b in known]
    by: dict[Measure, Sequence[float | None]] = {Measure.DISK: disk, Measure.IN: taken}
    by |= {Measure.OUT: sent, Measure.MAY_SEND: sent, Measure.LEADER_IN: taken}
    for measure in (*REPLICA_MEASURES, *LEADER_MEASURES):
        capacities = by.get(measure, ())
        weights = np.array([c for c in capacities if c], np.float64)
        if len(weights) < len(known):
            weights = np.ones(len(known))
        parts[able, measure] = weights / weights.sum()
    return parts


def _parts_by_rack(
    even: Float64, items: Float64, held: Int64, racks: Int32, counts: Bool
) -> Float64:
    """Return the fair parts as racks allow them for so many replicas of each partition."""
    parts = even.copy()
    for measure in REPLICA_MEASURES:
        parts[:, measure] = rack_shares(even[:, measure], items[:, measure], held, racks, counts)
    return parts


def _room(state: ClusterState, ids: Int32) -> tuple[Float64, Float64]:
    """Return what may be filled of each broker's disks together, and of the emptiest of them."""
    room, largest = np.full((2, len(ids)), np.inf)
    in_flight = incoming_bytes(state)
    for row, broker in enumerate(ids.tolist()):
        known = state.broker_by_id.get(broker)
        disks = disks_of(known.log_dirs) if known else ()
        free, whole = free_bytes(disks), whole_bytes(disks)
        if free is not None and whole is not None:
            room[row] = max(0.0, free - (1 - FULL) * whole - in_flight.get(broker, 0))
            sizes = ((disk.usable_bytes or 0, disk.total_bytes or 0) for disk in disks)
            largest[row] = max(0.0, *(usable - (1 - FULL) * total for usable, total in sizes))
    return room, largest


def brokers_outside(
    state: ClusterState, brokers: Collection[int], left: Collection[int]
) -> list[int]:
    """Return the brokers off which a scope's replicas go: all but these, and those left alone."""
    held = np.union1d(state.broker_ids, state.replica_broker)
    return np.setdiff1d(held, [*brokers, *left]).astype(int).tolist() if brokers else []


def scoped(given: Problem, brokers: Collection[int]) -> Problem:
    """Return the problem of evening only these brokers out, which get all that may be touched.

    What may not be touched counts where it is on these brokers, and nowhere else.
    """
    inside = np.isin(given.ids, np.array(list(brokers), np.int32))
    elsewhere = ~inside[given.replicas] & ~given.touchable[:, None]
    replicas = np.where(elsewhere, NOBODY, given.replicas)
    chosen = given.held * given.touchable
    parts = given.even_parts.copy()
    hidden = np.where(inside[:, None], given.hidden, 0.0)
    for measure in REPLICA_MEASURES:
        items = given.items[:, measure]
        fixed = hidden[:, measure].copy()
        for place in range(replicas.shape[1]):
            held = (replicas[:, place] != NOBODY) & ~given.touchable
            fixed += np.bincount(replicas[held, place], items[held], given.brokers)
        parts[:, measure] = rack_shares(
            parts[:, measure], items, chosen, given.racks, given.counts, fixed
        )
    return replace(given, replicas=replicas, parts=parts, hidden=hidden)


def with_moves(given: Problem, plan: Plan) -> Problem:
    """Return the problem as a plan leaves it; its own partitions may not be touched any more.

    Moves of partitions that do not exist, and brokers that do not, are none.
    """
    moves = list(moves_with_rows(given.state, plan))
    row_of = {int(broker): row for row, broker in enumerate(given.ids)}
    width = max([given.replicas.shape[1], *(len(move.after) for move, _ in moves)])
    more = ((0, 0), (0, width - given.replicas.shape[1]))
    replicas = np.pad(given.replicas, more, constant_values=NOBODY)
    may_lead = np.pad(given.may_lead, more)
    touched, room = np.zeros(len(replicas), np.bool_), given.room_bytes.copy()
    for move, row in moves:
        known = [row_of[broker] for broker in move.after if broker in row_of]
        replicas[row] = NOBODY
        replicas[row, : len(known)] = known
        touched[row] = True
        come = [row_of[broker] for broker in move.adding if broker in row_of]
        room[come] -= given.items[row, Measure.DISK]
    may_lead[touched] = False
    held = np.where(touched, (replicas >= 0).sum(axis=1), given.held)
    return replace(
        with_replica_counts(given, held),
        replicas=replicas,
        may_lead=may_lead,
        movable=given.movable & ~touched,
        touchable=given.touchable & ~touched,
        room_bytes=room,
    )
