"""Checks what brokers carry once a plan is done beside what they can, where that is configured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from core.cluster.state import ClusterState
from core.load.heat import broker_index
from core.load.snapshot import Float64, Load
from core.plan.effect import effect_of
from core.plan.findings import Finding, finding
from core.plan.plan import Move, Plan
from core.units import format_rate

NOTICED_BYTES_PER_S = 1.0
"""What a sum of many rates may be off by."""


def over_capacity(
    state: ClusterState, load: Load, moves: Iterable[Move], only: int | None = None
) -> Iterator[Finding]:
    """Say which brokers the plan gives more than they can take in or send.

    Those that are over it already, and get no more, are none of the plan's doing.
    """
    taken = _column([broker.in_capacity_bytes_per_s for broker in state.brokers])
    sent = _column([broker.out_capacity_bytes_per_s for broker in state.brokers])
    if np.isnan(taken).all() and np.isnan(sent).all():
        return
    told = ~np.isnan(load.in_bytes_per_s)
    known = [move for move in moves if (row := state.find(move.tp)) is not None and told[row]]
    effect = effect_of(state, load, Plan.of(known))
    before = taken_in(state, load)
    sides = (
        (before, before + _brought(state, load, known), taken, "in; it can take in"),
        (effect.before.out_bytes_per_s, effect.after.out_bytes_per_s, sent, "out; it can send"),
    )
    found = [
        (id, f"Broker {id} ends at {format_rate(after[i])} {words} {format_rate(most[i])}.")
        for was, after, most, words in sides
        for i, id in enumerate(state.broker_ids.tolist())
        if after[i] > most[i] and after[i] > was[i] + NOTICED_BYTES_PER_S and only in (None, id)
    ]
    for _, sentence in sorted(found, key=lambda one: one[0]):
        yield finding("capacity", sentence)


def taken_in(state: ClusterState, load: Load) -> Float64:
    """Return what each broker takes in, as leader and as follower, shape [B]; NaN is unknown."""
    if np.isnan(load.in_bytes_per_s).all():
        return np.full(len(state.brokers), np.nan)
    column = broker_index(state, state.replica_broker)
    rates = np.nan_to_num(load.in_bytes_per_s)[state.partition_of_replica]
    held = column >= 0
    return np.asarray(np.bincount(column[held], rates[held], len(state.brokers)), np.float64)


def _brought(state: ClusterState, load: Load, moves: Iterable[Move]) -> Float64:
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
