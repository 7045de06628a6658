"""What brokers have counted as part of an interval; pure.

Apache Kafka counts bytes by topic, and a broker leads several partitions of one: what it counted is
split among them by how much each grew. Where a broker has counted nothing the interval keeps what
the collector has measured itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from core.cluster.metadata import UNKNOWN
from core.cluster.state import Bool, ClusterState, Int64, read_only
from core.load.collector.interval import Int8, Interval
from core.load.load import Float64
from core.load.samples import Method
from core.load.sources.metrics import ByPartition, ByTopic, Metrics


def with_metrics(interval: Interval, metrics: Metrics) -> Interval:
    """Return the interval with the bytes that brokers have counted.

    Also with the sizes that they report, of replicas whose log dirs nobody may look at.
    """
    state, dt = interval.reading.state, interval.dt_seconds
    size = _replica_values(state, {b: m.size for b, m in metrics.items()})
    growth = _replica_values(state, {b: m.growth for b, m in metrics.items()})
    groups = _topic_leader_groups(state)
    messages = np.where(interval.messages >= 0, interval.messages, np.nan)
    in_bytes, in_method = _counted(
        groups,
        dt * _leader_topic_values(state, {b: m.topic_in for b, m in metrics.items()}),
        dt * _leader_partition_values(state, {b: m.partition_in for b, m in metrics.items()}),
        # By what each log grew, where nothing was deleted from it. What brokers report of sizes
        # does not tell whether something was, so messages come first.
        (interval.in_bytes, messages, _select_leader_values(state, growth)),
        (interval.in_bytes, interval.in_method),
        # A meter goes on for minutes after the last message; offsets tell that none came.
        idle=messages == 0,
    )
    out_bytes, out_method = _counted(
        groups,
        dt * _leader_topic_values(state, {b: m.topic_out for b, m in metrics.items()}),
        dt * _leader_partition_values(state, {b: m.partition_out for b, m in metrics.items()}),
        # What groups commit, else what came in: readers that commit nothing mostly keep up.
        (interval.out_bytes, in_bytes),
        (interval.out_bytes, interval.out_method),
        idle=np.zeros(state.partition_count, np.bool_),
    )
    unsized = (state.size_bytes < 0) & ~np.isnan(size)
    change = growth * dt[state.partition_of_replica]
    grown = unsized & ~np.isnan(change)
    sized = replace(
        state, size_bytes=read_only(np.where(unsized, size, state.size_bytes).astype(np.int64))
    )
    return replace(
        interval,
        reading=replace(interval.reading, state=sized),
        in_bytes=in_bytes,
        in_method=in_method,
        out_bytes=out_bytes,
        out_method=out_method,
        size_delta=np.where(grown, change, interval.size_delta).astype(np.int64),
        size_delta_known=interval.size_delta_known | grown,
    )


def split(groups: Int64, totals: Float64, weights: Sequence[Float64]) -> tuple[Float64, Int8]:
    """Return each partition's share of its group's total, and how it was found.

    `groups` numbers the group of each partition, -1 for none; `totals` repeats a group's total for
    each of its partitions, NaN for unknown. The first of `weights` counts that is known for all of
    a group, and not 0 for all. A group of one, or of total 0, needs none. Shapes are [P].
    """
    shares = np.full(len(groups), np.nan)
    method = np.zeros(len(groups), np.int8)
    inside = np.flatnonzero(groups >= 0)
    group, total = groups[inside], totals[inside]
    count = np.bincount(group)[group] if len(inside) else np.zeros(0, np.int64)
    share = total / count
    how = np.where((count == 1) | (total == 0), Method.COUNTED, Method.EVEN_SPLIT)
    left = (count > 1) & (total > 0)
    for weight in weights:
        # NaN of one member makes the sum NaN, and the weight none of its group.
        summed = np.bincount(group, weight[inside])[group] if len(inside) else share
        usable = left & (summed > 0) & np.isfinite(summed)
        share[usable] = total[usable] * weight[inside][usable] / summed[usable]
        how[usable] = Method.SPLIT
        left &= ~usable
    shares[inside] = share
    method[inside] = np.where(np.isnan(share), Method.NONE, how)
    return shares, method


def _counted(
    groups: Int64,
    of_topic: Float64,
    of_partition: Float64,
    weights: Sequence[Float64],
    measured: tuple[Float64, Int8],
    *,
    idle: Bool,
) -> tuple[Float64, Int8]:
    """Return bytes and methods: as counted by partition, else by topic, else as measured."""
    shares, how = split(groups, of_topic, weights)
    is_idle = np.zeros(len(groups), np.bool_)
    inside = groups >= 0
    if inside.any():
        is_idle[inside] = (np.bincount(groups[inside], ~idle[inside]) == 0)[groups[inside]]
    value, method = measured[0].copy(), measured[1].copy()
    by_topic = ~np.isnan(shares) & ~is_idle
    value[by_topic], method[by_topic] = shares[by_topic], how[by_topic]
    by_partition = ~np.isnan(of_partition)
    value[by_partition], method[by_partition] = of_partition[by_partition], Method.COUNTED
    return value, method


def _topic_leader_groups(state: ClusterState) -> Int64:
    """Return a number for each topic on each leader, -1 for no leader, shape [P]."""
    column = state.leader_column
    groups = np.full(state.partition_count, UNKNOWN, np.int64)
    has_leader = column >= 0
    keys = state.topic_of[has_leader].astype(np.int64) * len(state.brokers) + column[has_leader]
    groups[has_leader] = np.unique(keys, return_inverse=True)[1]
    return groups


def _leader_topic_values(state: ClusterState, metrics: Mapping[int, ByTopic]) -> Float64:
    """Return what each partition's leader says of its topic, NaN for nothing, shape [P]."""
    table = np.full((len(state.brokers) + 1, len(state.topics)), np.nan)
    for column, broker in enumerate(state.brokers):
        for topic, value in metrics.get(broker.id, {}).items():
            if (index := state.topic_index.get(topic)) is not None:
                table[column, index] = value
    return table[state.leader_column, state.topic_of]  # the last row is of no broker


def _leader_partition_values(state: ClusterState, metrics: Mapping[int, ByPartition]) -> Float64:
    """Return what each partition's leader says of it, NaN for nothing, shape [P]."""
    return _select_leader_values(state, _replica_values(state, metrics))


def _select_leader_values(state: ClusterState, replicas: Float64) -> Float64:
    """Return the leader's value of each partition, NaN without a leader; from [R] to [P]."""
    values = np.full(state.partition_count, np.nan)
    values[state.partition_of_replica[state.is_leader]] = replicas[state.is_leader]
    return values


def _replica_values(state: ClusterState, metrics: Mapping[int, ByPartition]) -> Float64:
    """Return what each replica's broker says of it, NaN for nothing, shape [R]."""
    values = np.full(state.replica_count, np.nan)
    names = [topic.name for topic in state.topics]
    for broker, by_topic in metrics.items():
        hosted = np.flatnonzero(state.replica_broker == broker) if by_topic else ()
        if not len(hosted):
            continue
        rows = state.partition_of_replica[hosted]
        pairs = zip(state.topic_of[rows].tolist(), state.partition[rows].tolist(), strict=True)
        nothing: Mapping[int, float] = {}
        values[hosted] = [by_topic.get(names[t], nothing).get(p, np.nan) for t, p in pairs]
    return values
