"""One poll of a cluster, with values kept from earlier polls where this one lacks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from core.cluster.metadata import UNKNOWN
from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.load.load import Float64

_S = TypeVar("_S", bound=np.generic)


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
    """What is kept of earlier polls, laid upon `state`: the last accepted value of each series."""

    state: ClusterState
    at: datetime
    monotonic: float
    """Of the newest poll; `seen` has each partition's own."""
    observed_at: Float64
    """Monotonic seconds of each partition's last known end offset, NaN never."""
    sized: float
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


def has_same_layout(old: ClusterState, new: ClusterState) -> bool:
    return (
        [topic.name for topic in old.topics] == [topic.name for topic in new.topics]
        and np.array_equal(old.topic_of, new.topic_of)
        and np.array_equal(old.partition, new.partition)
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
    old = memory.state
    offset = np.array([old.partitions_of(topic.name).start for topic in state.topics], np.int64)
    at = np.full(state.partition_count, UNKNOWN, np.int64)
    for t, topic in enumerate(state.topics):
        rows, was = state.partitions_of(topic.name), old.partitions_of(topic.name)
        if len(was) == 0:
            continue
        here = state.partition[rows.start : rows.stop]
        there = old.partition[was.start : was.stop]
        found = np.searchsorted(there, here)
        hit = (found < len(there)) & (there[np.minimum(found, len(there) - 1)] == here)
        at[rows.start : rows.stop] = np.where(hit, found + offset[t], UNKNOWN)
    size = np.full(state.replica_count, UNKNOWN, np.int64)
    old_keys = (old.partition_of_replica << 32) | old.replica_broker.astype(np.int64)
    order = np.argsort(old_keys, kind="stable")
    mapped = at[state.partition_of_replica]
    keys = (mapped << 32) | state.replica_broker.astype(np.int64)
    if len(order):
        found = np.minimum(np.searchsorted(old_keys[order], keys), len(order) - 1)
        same = (mapped >= 0) & (old_keys[order][found] == keys)
        size[same] = memory.size[order[found[same]]]
    return CollectorMemory(
        state=memory.state,
        at=memory.at,
        monotonic=memory.monotonic,
        observed_at=_take(memory.observed_at, at, np.nan),
        sized=memory.sized,
        end=_take(memory.end, at, UNKNOWN),
        start=_take(memory.start, at, UNKNOWN),
        leader=_take(memory.leader, at, UNKNOWN),
        size=size,
        commits={
            group: Commits(
                _take(kept.offsets, at, UNKNOWN),
                _take(kept.read_at, at, np.nan),
                _take(kept.moved, at, UNKNOWN),
            )
            for group, kept in memory.commits.items()
        },
        unattended=memory.unattended,
        listed=memory.listed,
        bytes_per_message=_take(memory.bytes_per_message, at, np.nan),
    )


def _take(column: npt.NDArray[_S], at: Int64, unknown: float) -> npt.NDArray[_S]:
    """Return `column[at]`, `unknown` where `at` is -1."""
    out: npt.NDArray[_S] = np.full(len(at), unknown, column.dtype)
    hit = at >= 0
    out[hit] = column[at[hit]]
    return out
