"""Checks brokers' load after a plan against their configured capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.catalogue import Finding, finding
from core.plan.effect import BAND, BrokerUsage, compute_effect
from core.plan.plan import Move
from core.units import format_rate

NOTICED_BYTES_PER_S = 1.0
"""What a sum of many rates may be off by."""


def check_broker_load(state: ClusterState, load: Load, moves: Iterable[Move]) -> Iterator[Finding]:
    """Say which brokers the plan gives more than they can carry, or lifts far above their share."""
    effect = compute_effect(state, load, moves_with_rates(state, load, moves))
    yield from find_over_capacity(state, effect.before, effect.after)
    yield from find_above_fair_share(state, effect.before, effect.after)


def has_capacities(state: ClusterState) -> bool:
    """Return whether any broker says what it can take in or send."""
    return any(
        broker.in_capacity_bytes_per_s is not None or broker.out_capacity_bytes_per_s is not None
        for broker in state.brokers
    )


def find_over_capacity(
    state: ClusterState, before: BrokerUsage, after: BrokerUsage, only: int | None = None
) -> Iterator[Finding]:
    """Say which brokers, or whether `only` this, get more than they can take in or send.

    Those that are over it already, and get no more, are none of the plan's doing.
    """
    if not has_capacities(state):
        return
    can_take = np.array([broker.in_capacity_bytes_per_s for broker in state.brokers], np.float64)
    can_send = np.array([broker.out_capacity_bytes_per_s for broker in state.brokers], np.float64)
    taken = before.received_bytes_per_s, after.received_bytes_per_s, can_take
    sent = before.out_bytes_per_s, after.out_bytes_per_s, can_send
    found = [
        (id, f"Broker {id} ends at {format_rate(then[i])} {words} {format_rate(most[i])}.")
        for (was, then, most), words in ((taken, "in; it can take in"), (sent, "out; it can send"))
        for i, id in enumerate(state.broker_ids.tolist())
        if then[i] > most[i] and then[i] > was[i] + NOTICED_BYTES_PER_S and only in (None, id)
    ]
    for id, sentence in sorted(found, key=lambda one: one[0]):
        yield finding("capacity", sentence, broker=id)


def moves_with_rates(state: ClusterState, load: Load, moves: Iterable[Move]) -> list[Move]:
    """Return the moves of partitions of which what is produced to them is known."""
    rows = ((move, state.find(move.tp)) for move in moves)
    return [m for m, row in rows if row is not None and not np.isnan(load.in_bytes_per_s[row])]


def find_above_fair_share(
    state: ClusterState, before: BrokerUsage, after: BrokerUsage, only: int | None = None
) -> Iterator[Finding]:
    """Say which broker, or whether `only` this, is lifted furthest above its fair share.

    By what is produced to leaders there, which is what `in` means on the screen.
    """
    was, now = before.in_bytes_per_s, after.in_bytes_per_s
    if np.isnan(now).all():
        return
    alive = np.array([broker.alive for broker in state.brokers])
    fair = float(now[alive].mean()) if alive.any() else 0.0
    if fair <= 0:
        return
    lifted = (now > was) & (now > fair * (1 + BAND))
    if only is not None:
        lifted &= state.broker_ids == only
    if not lifted.any():
        return
    worst = int(np.argmax(np.where(lifted, now, -1.0)))
    yield finding(
        "hotter-broker",
        f"Broker {state.broker_ids[worst]} ends at {format_rate(now[worst])} in, "
        f"{now[worst] / fair - 1:.0%} above its fair share of {format_rate(fair)}.",
        broker=int(state.broker_ids[worst]),
    )


def check_leader_skew(state: ClusterState, moves: Sequence[Move]) -> Iterator[Finding]:
    """Compare how many partitions prefer each broker as leader, now and after."""
    changed = [
        (held[0], move.after[0])
        for move in moves
        if (row := state.find(move.tp)) is not None
        and (held := state.replicas(row))
        and held[0] != move.after[0]
    ]
    if not changed:
        return
    first = state.replica_start[:-1][np.diff(state.replica_start) > 0]
    position = np.searchsorted(state.broker_ids, state.replica_broker[first])
    before = np.bincount(position, minlength=len(state.brokers))
    after = before.copy()
    at = {int(id): i for i, id in enumerate(state.broker_ids)}
    for was, becomes in changed:
        after[at[becomes]] += 1
        if was in at:
            after[at[was]] -= 1
    alive = np.array([broker.alive for broker in state.brokers])
    fair = after[alive].mean() if alive.any() else 0.0
    worst = int(np.argmax(after))
    if after[worst] > before.max() and after[worst] > fair * (1 + BAND):
        yield finding(
            "leader-skew",
            f"Broker {state.broker_ids[worst]} becomes preferred leader of {after[worst]} "
            f"partitions (now {before[worst]}, fair share {fair:.1f}).",
            broker=int(state.broker_ids[worst]),
        )
