"""What brokers bear while a plan is carried out: how near to capacity, and how much more disk.

Pure. Nothing here is refused: it is said beside a time, before somebody chooses a rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState
from core.load.snapshot import Float64, Load
from core.plan.batches import Batches, batch_moves
from core.plan.check_capacity import taken_in
from core.plan.copying import Side
from core.plan.effect import totals
from core.plan.estimate import Estimate
from core.plan.plan import Plan
from core.units import UNLIMITED, format_bytes

NEAR_CAPACITY = 0.8
"""From here on clients wait longer, as a broker's queues do not empty between bursts."""
FLYING = 2
"""Batches that are in flight at a time, at most; what leaves is still there until both are done."""
NAMED = 3


@dataclass(frozen=True, slots=True)
class Crowded:
    """A broker and side whose load with the throttle on top comes near its capacity."""

    broker: int
    side: Side
    fraction: float

    @property
    def words(self) -> str:
        """Return who comes how near."""
        can = "send" if self.side is Side.LEADER else "take in"
        return f"broker {self.broker} comes to {self.fraction:.0%} of what it can {can}"


@dataclass(frozen=True, slots=True)
class Extra:
    """How much more a broker's disks hold at the most than before; None when not known."""

    broker: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Burden:
    """Who comes nearest to its capacity, None when nobody does; extra disk, the most first."""

    crowded: Crowded | None = None
    extra: tuple[Extra, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """Return what is to be said of it."""
        said = []
        if self.crowded is not None:
            words = self.crowded.words
            said.append(f"With the throttle on top {words}: clients there may wait longer.")
        if self.extra:
            shown = [
                f"{'an unknown size' if one.bytes is None else format_bytes(one.bytes)} "
                f"on broker {one.broker}"
                for one in self.extra[:NAMED]
            ]
            more = len(self.extra) - len(shown)
            rest = f"; less on {more} more" if more else ""
            said.append(f"Meanwhile disks hold more, at most {', '.join(shown)}{rest}.")
        return said


def burden(
    state: ClusterState,
    load: Load,
    plan: Plan,
    estimate: Estimate,
    most_extra_bytes: int | None = None,
) -> Burden:
    """Return what brokers bear at the rate of an estimate; nothing of one that never ends.

    Where no play-through has told the time, disks are told as if all were copied at once.
    """
    if estimate.never is not None:
        return Burden()
    batches = None
    if estimate.range_seconds is not None:
        rate = estimate.timed_bytes_per_s
        batches = batch_moves(
            state, load, plan, rate_bytes_per_s=rate, most_extra_bytes=most_extra_bytes
        )
    return Burden(crowded(state, carried(state, load), estimate), peak_extra(state, plan, batches))


def carried(state: ClusterState, load: Load) -> Mapping[Side, Float64]:
    """Return what each broker sends, and takes in as leader and follower, shape [B]."""
    return {Side.LEADER: totals(state, load).out_bytes_per_s, Side.FOLLOWER: taken_in(state, load)}


def crowded(
    state: ClusterState, carried: Mapping[Side, Float64], estimate: Estimate
) -> Crowded | None:
    """Return the fullest broker and side at this rate, None when below 80 % or not known.

    What a broker copies comes on top of what each side carries, [B]; it copies no faster than the
    rate.
    """
    rate = estimate.timed_bytes_per_s
    worst: Crowded | None = None
    at = {broker.id: i for i, broker in enumerate(state.brokers)}
    for row in estimate.rows:
        broker = state.broker_by_id.get(row.broker)
        if broker is None or not row.bytes or row.side is Side.LOG_DIRS or rate == UNLIMITED:
            continue
        leads = row.side is Side.LEADER
        capacity = broker.out_capacity_bytes_per_s if leads else broker.in_capacity_bytes_per_s
        load = float(carried[row.side][at[row.broker]])
        if not capacity or np.isnan(load):
            continue
        fraction = (load + rate) / capacity
        if fraction >= NEAR_CAPACITY and (worst is None or fraction > worst.fraction):
            worst = Crowded(row.broker, row.side, fraction)
    return worst


def peak_extra(
    state: ClusterState, plan: Plan, batches: Batches | None = None
) -> tuple[Extra, ...]:
    """Return how much more each broker's disks hold at the most, the most first.

    By batches, all at once without them. What leaves counts until its batch and the one after it
    have ended, that of a long move to the end; what is produced meanwhile is not counted.
    """
    order = batches.batches if batches is not None else (tuple(range(len(plan))),)
    rows = [state.find(move.tp) for move in plan]
    sizes = [-1 if row is None else int(state.partition_size_bytes[row]) for row in rows]
    unknown = {
        broker
        for move, size in zip(plan, sizes, strict=True)
        if size < 0
        for broker in move.receiving
    }
    held: defaultdict[int, int] = defaultdict(int)
    peak: defaultdict[int, int] = defaultdict(int)
    for number, batch in enumerate(order):
        ended = order[number - FLYING] if number >= FLYING else ()
        for index in ended:
            if batches is None or index not in batches.long:
                move = plan.moves[index]
                for broker in (*move.removing, *move.dir_moves):
                    held[broker] -= max(sizes[index], 0)
        for index in batch:
            for broker in plan.moves[index].receiving:
                held[broker] += max(sizes[index], 0)
                peak[broker] = max(peak[broker], held[broker])
    found = [Extra(broker, None if broker in unknown else most) for broker, most in peak.items()]
    return tuple(
        sorted(
            (one for one in found if one.bytes != 0),
            key=lambda one: (one.bytes is not None, -(one.bytes or 0), one.broker),
        )
    )
