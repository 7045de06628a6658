"""Checks what brokers carry once a plan is done beside what they can, where that is configured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from core.cluster.state import ClusterState
from core.load.snapshot.format import Float64, Load
from core.plan.checks.catalogue import Finding, finding
from core.plan.checks.disks import with_rates
from core.plan.effect import effect_of
from core.plan.plan import Move
from core.units import format_rate

NOTICED_BYTES_PER_S = 1.0
"""What a sum of many rates may be off by."""


def over_capacity(state: ClusterState, load: Load, moves: Iterable[Move]) -> Iterator[Finding]:
    """Say which brokers the plan gives more than they can take in or send.

    Those that are over it already, and get no more, are none of the plan's doing.
    """
    if not is_limited(state):
        return
    known = with_rates(state, load, moves)
    effect, before = effect_of(state, load, known), taken_in(state, load)
    sent = effect.before.out_bytes_per_s, effect.after.out_bytes_per_s
    yield from above(state, (before, before + brought(state, load, known)), sent)


def is_limited(state: ClusterState) -> bool:
    """Return whether any broker says what it can take in or send."""
    return any(
        broker.in_capacity_bytes_per_s is not None or broker.out_capacity_bytes_per_s is not None
        for broker in state.brokers
    )


def above(
    state: ClusterState,
    taken: tuple[Float64, Float64],
    sent: tuple[Float64, Float64],
    only: int | None = None,
) -> Iterator[Finding]:
    """Say which brokers, or whether `only` this, take in or send more than they can.

    `taken` and `sent` are what each broker does before and after, shape [B].
    """
    can_take = _column([broker.in_capacity_bytes_per_s for broker in state.brokers])
    can_send = _column([broker.out_capacity_bytes_per_s for broker in state.brokers])
    sides = ((*taken, can_take, "in; it can take in"), (*sent, can_send, "out; it can send"))
    found = [
        (id, f"Broker {id} ends at {format_rate(after[i])} {words} {format_rate(most[i])}.")
        for was, after, most, words in sides
        for i, id in enumerate(state.broker_ids.tolist())
        if after[i] > most[i] and after[i] > was[i] + NOTICED_BYTES_PER_S and only in (None, id)
    ]
    for id, sentence in sorted(found, key=lambda one: one[0]):
        yield finding("capacity", sentence, broker=id)


def taken_in(state: ClusterState, load: Load) -> Float64:
    """Return what each broker takes in, as leader and as follower, shape [B]; NaN is unknown."""
    if np.isnan(load.in_bytes_per_s).all():
        return np.full(len(state.brokers), np.nan)
    column = state.replica_column
    rates = np.nan_to_num(load.in_bytes_per_s)[state.partition_of_replica]
    held = column >= 0
    return np.asarray(np.bincount(column[held], rates[held], len(state.brokers)), np.float64)


def brought(state: ClusterState, load: Load, moves: Iterable[Move]) -> Float64:
    """Return by how much more each broker takes in after these moves, shape [B]."""
    at = {broker.id: i for i, broker in enumerate(state.brokers)}
    more = np.zeros(len(at))
    for move in moves:
        row = state.find(move.tp)
        assert row is not None, "only moves of known partitions come here"
        for sign, brokers in ((-1, state.replicas(row)), (1, move.after)):
            for broker in brokers:
                if broker in at:
                    more[at[broker]] += sign * load.in_bytes_per_s[row]
    return more


def _column(values: Sequence[float | None]) -> Float64:
    return np.array([np.nan if value is None else value for value in values], np.float64)
