"""A plan's effect on brokers: their totals before and after.

`in` and `out` are what is produced to leaders, and what they send, as in core.load.view.totals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from core.cluster.state import ClusterState, Int32, Int64
from core.load.load import Float64, Load
from core.load.view.heat import Metric
from core.load.view.totals import broker_values, disk_bytes
from core.plan.disk_space import growth_bytes
from core.plan.plan import Move, moves_with_rows

BAND = 0.10
"""How far from its fair share a broker may be."""


@dataclass(frozen=True, slots=True)
class BrokerUsage:
    """Columns of length B in the order of `ClusterState.brokers`; NaN is unknown."""

    brokers: Int32
    in_bytes_per_s: Float64
    received_bytes_per_s: Float64
    """What each takes in, as leader and as follower."""
    out_bytes_per_s: Float64
    leaders: Int64
    replicas: Int64
    disk_used_bytes: Float64
    disk_total_bytes: Float64

    @property
    def disk_fraction(self) -> Float64:
        whole = np.where(self.disk_total_bytes > 0, self.disk_total_bytes, np.nan)
        return np.asarray(self.disk_used_bytes / whole)


@dataclass(frozen=True, slots=True)
class Effect:
    """Totals before and after a plan."""

    before: BrokerUsage
    after: BrokerUsage

    @property
    def touched(self) -> tuple[int, ...]:
        """Return which brokers the plan changes, as row indices."""
        before, after = self.before, self.after
        changed = (before.leaders != after.leaders) | (before.replicas != after.replicas)
        for name in ("in_bytes_per_s", "out_bytes_per_s", "disk_used_bytes"):
            changed |= ~np.isclose(getattr(after, name), getattr(before, name), equal_nan=True)
        return tuple(np.flatnonzero(changed).tolist())


def compute_effect(
    state: ClusterState, load: Load, plan: Iterable[Move], before: BrokerUsage | None = None
) -> Effect:
    """Return what the plan does; `before` are the totals it starts from, by default today's.

    Moves of partitions that are gone count nothing.
    """
    before = before or current_totals(state, load)
    at = {int(broker): i for i, broker in enumerate(before.brokers)}
    # Lists: to take single values out of arrays takes longer than to reckon with them.
    produced, sent = before.in_bytes_per_s.tolist(), before.out_bytes_per_s.tolist()
    received, used = before.received_bytes_per_s.tolist(), before.disk_used_bytes.tolist()
    leaders, replicas = before.leaders.tolist(), before.replicas.tolist()
    for move, held, leader, size, w, consumed in move_facts(state, load, plan):
        if held is None:
            continue
        then = leader_after(move, leader)
        for sign, brokers, leading in ((-1, held, leader), (1, move.after, then)):
            for broker in brokers:
                if (i := at.get(broker)) is None:
                    continue
                replicas[i] += sign
                used[i] += sign * size
                received[i] += sign * w
                if broker == leading:
                    leaders[i] += sign
                    produced[i] += sign * w
                    sent[i] += sign * (consumed + w * (len(brokers) - 1))
    after = replace(
        before,
        in_bytes_per_s=np.array(produced, np.float64),
        received_bytes_per_s=np.array(received, np.float64),
        out_bytes_per_s=np.array(sent, np.float64),
        leaders=np.array(leaders, np.int64),
        replicas=np.array(replicas, np.int64),
        disk_used_bytes=np.array(used, np.float64),
    )
    return Effect(before, after)


class MoveFacts(NamedTuple):
    """A move, and what its partition is and carries; `now` is None where it is not there."""

    move: Move
    now: tuple[int, ...] | None
    leader: int = -1
    size_bytes: int = 0
    produced: float = 0.0
    consumed: float = 0.0


def move_facts(state: ClusterState, load: Load, moves: Iterable[Move]) -> list[MoveFacts]:
    """Return each move's facts, read from the arrays at once; what is not known is nothing."""
    moves_and_rows = [(move, state.find(move.tp)) for move in moves]
    rows = np.array([row for _, row in moves_and_rows if row is not None], np.int64)
    read = zip(
        state.leader[rows].tolist(),
        np.maximum(state.partition_size_bytes[rows], 0).tolist(),
        np.nan_to_num(load.in_bytes_per_s[rows]).tolist(),
        np.nan_to_num(load.out_bytes_per_s[rows]).tolist(),
        strict=True,
    )
    return [
        MoveFacts(move, None) if row is None else MoveFacts(move, state.replicas(row), *next(read))
        for move, row in moves_and_rows
    ]


def with_growth(
    effect: Effect, state: ClusterState, load: Load, plan: Iterable[Move], seconds: float
) -> Effect:
    """Return an effect with what new replicas grow by meanwhile, as the checks of disks have it."""
    used = effect.after.disk_used_bytes.copy()
    at = {int(broker): i for i, broker in enumerate(effect.after.brokers)}
    for move, row in moves_with_rows(state, plan):
        for broker in move.adding:
            if broker in at:
                used[at[broker]] += growth_bytes(state, load, row, seconds)
    return Effect(effect.before, replace(effect.after, disk_used_bytes=used))


def leader_after(move: Move, leader: int) -> int:
    """Return who leads when the move is done: a leader that stays keeps leading, unless the plan
    asks for another preferred leader."""
    old, new = move.preferred_leader
    return leader if old == new and leader in move.after else new


def current_totals(state: ClusterState, load: Load) -> BrokerUsage:
    """Return each broker's totals now; rates are NaN when no partition's rate is known."""

    def known(metric: Metric) -> Float64:
        values = broker_values(state, load, metric)
        return values if np.isnan(values).all() else np.nan_to_num(values)

    def count(metric: Metric) -> Int64:
        return np.nan_to_num(broker_values(state, load, metric)).astype(np.int64)

    rows, produced = len(state.brokers), np.nan_to_num(load.in_bytes_per_s)
    received = sent = np.full(rows, np.nan)
    if not np.isnan(load.in_bytes_per_s).all():
        held, column = state.replica_column >= 0, state.replica_column
        rates = produced[state.partition_of_replica[held]]
        received = np.bincount(column[held], rates, rows).astype(np.float64)
    if not np.isnan(load.out_bytes_per_s).all():
        # Of a partition of which only that is not known, what its followers fetch counts all the
        # same.
        has_leader, column = state.leader_column >= 0, state.leader_column
        followers = np.maximum(np.diff(state.replica_start) - 1, 0)
        rates = (np.nan_to_num(load.out_bytes_per_s) + produced * followers)[has_leader]
        sent = np.bincount(column[has_leader], rates, rows).astype(np.float64)
    used, total = disk_bytes(state)
    return BrokerUsage(
        brokers=state.broker_ids,
        in_bytes_per_s=known(Metric.IN),
        received_bytes_per_s=received,
        out_bytes_per_s=sent,
        leaders=count(Metric.LEADERS),
        replicas=count(Metric.REPLICAS),
        disk_used_bytes=used,
        disk_total_bytes=total,
    )
