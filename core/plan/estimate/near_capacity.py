"""Brokers whose usual load plus the throttle comes near their capacity. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.cluster.metadata import Broker
from core.cluster.state import ClusterState
from core.load.load import Float64, Load
from core.plan.copies import NO_PER_SIDE_RATES, BrokerSide, PerSideRates, Side, SideLoad
from core.plan.effect import current_totals
from core.units import UNLIMITED

NEAR_CAPACITY = 0.8
"""From here on clients wait longer, as a broker's queues do not empty between bursts."""

MIN_ROOM = 0.5
"""What part of a full link copies get: they and all else contend for it on equal terms."""


@dataclass(frozen=True, slots=True)
class NearCapacity:
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
class SideUsage:
    """What a broker and side that copies bears besides, and what it can."""

    side: BrokerSide
    besides_bytes_per_s: float
    capacity_bytes_per_s: float


def broker_traffic(state: ClusterState, load: Load) -> Mapping[Side, Float64]:
    """Return what each broker sends, and takes in as leader and follower, shape [B]."""
    now = current_totals(state, load)
    return {Side.LEADER: now.out_bytes_per_s, Side.FOLLOWER: now.received_bytes_per_s}


def capacity_of(broker: Broker, side: Side) -> float | None:
    """Return what a broker can send, or take in, in bytes/s; None is unknown."""
    if side is Side.LEADER:
        return broker.out_capacity_bytes_per_s
    return broker.in_capacity_bytes_per_s if side is Side.FOLLOWER else None


def _capacities(state: ClusterState, sides: Iterable[BrokerSide]) -> dict[BrokerSide, float]:
    known = state.broker_by_id
    return {
        side: capacity
        for side in sides
        if side.broker in known and (capacity := capacity_of(known[side.broker], side.side))
    }


def side_usages(
    state: ClusterState, load: Load, loads: Mapping[BrokerSide, SideLoad]
) -> tuple[SideUsage, ...]:
    """Return what brokers and sides that copy bear besides, where that and capacity are known."""
    can = _capacities(state, (side for side, copies in loads.items() if copies.bytes >= 0.5))
    if not can:
        return ()
    now = broker_traffic(state, load)
    at = {broker.id: i for i, broker in enumerate(state.brokers)}
    usages = (
        SideUsage(side, float(now[side.side][at[side.broker]]), capacity)
        for side, capacity in can.items()
    )
    return tuple(usage for usage in usages if not math.isnan(usage.besides_bytes_per_s))


def link_room(
    state: ClusterState, loads: Mapping[BrokerSide, SideLoad], side_usages: Iterable[SideUsage]
) -> Mapping[BrokerSide, float]:
    """Return what brokers can send and take in for copies, in bytes/s, as far as that is known.

    It is the capacity without what they bear anyway, but MIN_ROOM of it at the least: where
    there is less, clients wait longer rather than copies stand still.
    """
    room_by_side = _capacities(state, loads)
    for usage in side_usages:
        capacity = usage.capacity_bytes_per_s
        room_by_side[usage.side] = max(capacity - usage.besides_bytes_per_s, MIN_ROOM * capacity)
    return room_by_side


def find_near_capacity(
    side_usages: Iterable[SideUsage],
    rate_bytes_per_s: int,
    per_side_rates: PerSideRates = NO_PER_SIDE_RATES,
) -> NearCapacity | None:
    """Return the fullest broker and side at a rate, None when below 80 % or not known."""
    if rate_bytes_per_s == UNLIMITED:
        return None
    full = [
        NearCapacity(
            *usage.side,
            (usage.besides_bytes_per_s + per_side_rates.get(usage.side, rate_bytes_per_s))
            / usage.capacity_bytes_per_s,
        )
        for usage in side_usages
    ]
    worst = max(full, key=lambda candidate: candidate.fraction, default=None)
    return worst if worst is not None and worst.fraction >= NEAR_CAPACITY else None
