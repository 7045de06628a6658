"""Lays load that was read upon one picture of a cluster upon the next one."""

from __future__ import annotations

import numpy as np

from core.cluster.state import ClusterState
from core.load.snapshot.format import Float64, Load


def relaid(load: Load, old: ClusterState, new: ClusterState) -> Load:
    """Return `load` of `old` laid upon `new`; partitions that `old` lacked are unknown."""
    if same_partitions(old, new):
        return load
    index = np.array([old.topic_index.get(topic.name, -1) for topic in new.topics], np.int64)
    wanted = (index[new.topic_of] << 32) | new.partition
    known = (old.topic_of.astype(np.int64) << 32) | old.partition
    at = np.searchsorted(known, wanted)
    at[at == len(known)] = 0
    found = known[at] == wanted if len(known) else np.zeros(len(wanted), np.bool_)

    def laid(column: Float64) -> Float64:
        out = np.full(len(wanted), np.nan)
        out[found] = column[at[found]]
        return out

    return Load(
        laid(load.in_bytes_per_s),
        laid(load.out_bytes_per_s),
        laid(load.messages_per_s),
        load.source,
        load.as_of,
    )


def same_partitions(one: ClusterState, other: ClusterState) -> bool:
    """Return whether two states list the same partitions, so that columns can be shared."""
    return one is other or (
        one.partition_count == other.partition_count
        and len(one.topics) == len(other.topics)
        and all(a.name == b.name for a, b in zip(one.topics, other.topics, strict=True))
        and np.array_equal(one.topic_of, other.topic_of)
        and np.array_equal(one.partition, other.partition)
    )
