"""Suggests one move: the replica whose move evens a broker out most. Whole plans: the planner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import Bool, ClusterState, Int64
from core.load.load import Float64, Load
from core.load.view.heat import Metric, alive_brokers, fair_parts
from core.load.view.heat import partition_values as values_of
from core.load.view.totals import broker_totals, fair_shares, max_ratio
from core.plan.checks.catalogue import Severity
from core.plan.checks.drop import check_drop
from core.plan.effect import BrokerUsage, compute_effect
from core.plan.plan import Plan, moves_with_rows

TRIES = 24
"""Candidates looked at, best first, before there is nothing to suggest."""
WORTH = 0.01
"""A move must take at least this part of the broker's fair share away."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One edit of a plan; `before` and `after` are the source's totals in the metric's unit.

    With `only_leader` no data moves: `destination` becomes preferred leader.
    """

    tp: TopicPartition
    source: int
    destination: int
    metric: Metric
    plan: Plan
    before: float
    after: float
    skew_before: float
    skew_after: float
    bytes: int | None
    only_leader: bool


def suggest_move(
    state: ClusterState,
    load: Load,
    plan: Plan,
    *,
    metric: Metric,
    broker: int,
    topic: str | None = None,
) -> Suggestion | None:
    """Return the move that helps `broker` most, of `topic`'s replicas or of all; None for none.

    A broker at or below its fair share gets none; moves that a check calls unsafe are left out.
    """
    now = plan_totals(state, load, plan, metric)
    fair = fair_shares(now, fair_parts(state, metric))
    ids = state.broker_ids.tolist()
    if broker not in ids or np.isnan(now).all():
        return None
    source = ids.index(broker)
    if not now[source] > fair[source]:
        return None
    candidates = _candidates(state, plan, metric, broker, topic)
    values = np.nan_to_num(values_of(state, load, metric)[candidates])
    worth = values > WORTH * fair[source]
    candidates, values = candidates[worth], values[worth]
    for at, destination in _rank_moves(values, now, fair, source, alive_brokers(state)):
        tp = state.tp(int(candidates[at]))
        edited = _edited(state, load, plan, metric, tp, broker, ids[destination])
        if edited is None:
            continue
        then = plan_totals(state, load, edited, metric)
        only_leader = metric is Metric.LEADERS
        size = 0 if only_leader else int(state.partition_size_bytes[candidates[at]])
        return Suggestion(
            tp=tp,
            source=broker,
            destination=ids[destination],
            metric=metric,
            plan=edited,
            before=float(now[source]),
            after=float(then[source]),
            skew_before=max_ratio(now, fair)[1],
            skew_after=max_ratio(then, fair)[1],
            bytes=size if size >= 0 else None,
            only_leader=only_leader,
        )
    return None


def plan_totals(state: ClusterState, load: Load, plan: Plan, metric: Metric) -> Float64:
    """Return what each broker carries once `plan` is done, shape [B]; NaN unknown."""
    now = broker_totals(state, load).values[metric]
    if not plan.moves:
        return now
    effect = compute_effect(state, load, plan)
    return np.asarray(now + _column(effect.after, metric) - _column(effect.before, metric))


def _column(totals: BrokerUsage, metric: Metric) -> Float64:
    columns = {
        Metric.IN: totals.in_bytes_per_s,
        Metric.OUT: totals.out_bytes_per_s,
        # Disks that nobody could measure do not matter: only the difference is read.
        Metric.SIZE: np.nan_to_num(totals.disk_used_bytes),
        Metric.LEADERS: totals.leaders,
        Metric.REPLICAS: totals.replicas,
    }
    return columns[metric].astype(np.float64)


def _candidates(
    state: ClusterState, plan: Plan, metric: Metric, broker: int, topic: str | None
) -> Int64:
    """Return the partitions that count on `broker` now, and that the plan leaves there."""
    if metric.of_leaders:
        rows = np.flatnonzero(state.leader == broker)
    else:
        rows = np.unique(state.partition_of_replica[state.replica_broker == broker])
    if topic is not None:
        rows = rows[np.isin(rows, state.partitions_of(topic))]
    planned = {row for _, row in moves_with_rows(state, plan)}
    return np.array([row for row in rows.tolist() if row not in planned], np.int64)


def _rank_moves(
    values: Float64, now: Float64, fair: Float64, source: int, alive: Bool
) -> list[tuple[int, int]]:
    """Return (candidate, destination) by how much squared deviation each takes away."""
    if not len(values):
        return []
    off = np.nan_to_num(now - fair)
    moved = values[:, None]
    gain = off[source] ** 2 + off[None, :] ** 2
    gain = gain - (off[source] - moved) ** 2 - (off[None, :] + moved) ** 2
    gain[:, ~alive] = -np.inf
    gain[:, source] = -np.inf
    order = np.argsort(-gain, axis=None, kind="stable")
    # One partition after the other would fill the tries with one unlucky destination.
    pairs = np.stack(np.unravel_index(order, gain.shape), axis=1)
    return [(int(a), int(b)) for a, b in pairs[: TRIES * len(now)] if gain[a, b] > 0]


def _edited(
    state: ClusterState,
    load: Load,
    plan: Plan,
    metric: Metric,
    tp: TopicPartition,
    source: int,
    destination: int,
) -> Plan | None:
    """Return the plan with this edit, None when it is not possible or not safe."""
    target = plan.target(state, tp)
    if metric is Metric.LEADERS:
        row = state.find(tp)
        if row is None or destination not in target or destination not in state.row(row).isr:
            return None
        return plan.with_leader(state, tp, destination)
    if destination in target or source not in target:
        return None
    finding = check_drop(state, load, plan, tp, source, destination)
    if finding is not None and finding.severity >= Severity.UNSAFE:
        return None
    return plan.with_move(state, tp, source, destination)
