"""One poll of a cluster, with values kept from earlier polls where this one lacks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from core.cluster.metadata import UNKNOWN
from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.load.load import Float64, align_rows, has_same_partitions, take_rows


@dataclass(frozen=True, eq=False)
class Reading:
    """One poll, laid upon `state`: offsets are int64[P], -1 unknown; sizes are in the state.

    `at` and `monotonic` are when offsets were told, `sized` and `committed_at` (monotonic seconds
    too) when sizes and commits were; `silent` are the brokers whose log dirs are unknown.
    """

    state: ClusterState
    at: datetime
    monotonic: float
    sized: float
    committed_at: float
    end: Int64
    start: Int64
    committed: Mapping[str, Int64]
    """By group, of those that were told of."""
    silent: frozenset[int] = frozenset()
    unattended: frozenset[str] = frozenset()
    """Groups without a member: Kafka lets such a group's offsets be reset."""
    untold: frozenset[str] = frozenset()
    """Groups that are there, and what they have committed is not known."""
    hidden: bool = False
    """Whether there may be groups that this user is never told of."""
    listed: bool = True
    """Whether every coordinator has listed its groups: else some may be missing, or all."""


@dataclass(frozen=True, eq=False)
class Commits:
    """What is kept of one group's commits, by partition."""

    offsets: Int64
    read_at: Float64
    """Monotonic seconds of when they were told."""
    moved: Int64
    """Each partition's end offset when the commit last changed."""


@dataclass(frozen=True, eq=False)
class CollectorMemory:
    """What is kept of earlier polls, laid upon the newest: the last accepted value of each series.

    `observed_at` are the monotonic seconds of each partition's last known end offset, NaN never.
    """

    newest: Reading
    """Without what groups had committed then: `commits` has it, and there may be many groups."""
    observed_at: Float64
    end: Int64
    start: Int64
    leader: Int32
    size: Int64
    commits: Mapping[str, Commits]
    """By group; old ones of a group that was not told of since."""
    unattended: frozenset[str]
    listed: bool
    """Whether every coordinator has listed its groups at least once."""
    bytes_per_message: Float64


def empty_memory(reading: Reading, bytes_per_message: Float64) -> CollectorMemory:
    """Return what is known before a first poll: nothing but a guess of bytes per message."""
    state = reading.state
    unknown = np.full(state.partition_count, UNKNOWN, np.int64)
    return CollectorMemory(
        newest=reading,
        observed_at=np.full(state.partition_count, np.nan),
        end=unknown,
        start=unknown,
        leader=np.full(state.partition_count, UNKNOWN, np.int32),
        size=np.full(state.replica_count, UNKNOWN, np.int64),
        commits={},
        unattended=frozenset(),
        listed=False,
        bytes_per_message=bytes_per_message,
    )


def has_same_layout(old: ClusterState, new: ClusterState) -> bool:
    """Return whether two states have the same partitions on the same brokers."""
    return (
        has_same_partitions(old, new)
        and np.array_equal(old.replica_start, new.replica_start)
        and np.array_equal(old.replica_broker, new.replica_broker)
    )


def recreated_partitions(old: ClusterState, new: ClusterState) -> Bool:
    """Return for each partition whether its topic's id is another than before."""
    before = {topic.name: topic.id for topic in old.topics}
    changed = np.array(
        [
            topic.id is not None
            and before.get(topic.name) is not None
            and before[topic.name] != topic.id
            for topic in new.topics
        ],
        np.bool_,
    )
    return changed[new.topic_of] if len(changed) else np.zeros(0, np.bool_)


def realign_memory(memory: CollectorMemory, state: ClusterState) -> CollectorMemory:
    """Return `memory` upon another layout: rows that are new are unknown."""
    old = memory.newest.state
    at = align_rows([topic.name for topic in old.topics], old.topic_of, old.partition, state)
    size = np.full(state.replica_count, UNKNOWN, np.int64)
    old_keys = (old.partition_of_replica << 32) | old.replica_broker.astype(np.int64)
    order = np.argsort(old_keys, kind="stable")
    mapped = at[state.partition_of_replica]
    keys = (mapped << 32) | state.replica_broker.astype(np.int64)
    if len(order):
        positions = np.minimum(np.searchsorted(old_keys[order], keys), len(order) - 1)
        same = (mapped >= 0) & (old_keys[order][positions] == keys)
        size[same] = memory.size[order[positions[same]]]
    return replace(
        memory,
        observed_at=take_rows(memory.observed_at, at),
        end=take_rows(memory.end, at, UNKNOWN),
        start=take_rows(memory.start, at, UNKNOWN),
        leader=take_rows(memory.leader, at, UNKNOWN),
        size=size,
        commits={
            group: Commits(
                take_rows(kept.offsets, at, UNKNOWN),
                take_rows(kept.read_at, at),
                take_rows(kept.moved, at, UNKNOWN),
            )
            for group, kept in memory.commits.items()
        },
        bytes_per_message=take_rows(memory.bytes_per_message, at),
    )
