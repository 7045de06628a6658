"""One topic's partitions, hottest first, and what each broker is to a partition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from core.cluster.state import ClusterState, Int64
from core.load.heat import Metric, Order, partition_values
from core.load.snapshot import Float64, Load


class Role(Enum):
    """What a broker is to a partition."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"
    OUT_OF_SYNC = "out of sync"
    ARRIVING = "arriving"
    LEAVING = "leaving"


@dataclass(frozen=True, eq=False)
class PartitionMap:
    """The partitions of one topic, hottest first: `rows` index the ClusterState, shape [N]."""

    topic: str
    metric: Metric
    rows: Int64
    values: Float64
    """What each partition carries."""
    size_bytes: Float64
    fair: float
    """What a partition would carry if all carried the same; NaN when unknown."""


def partition_map(
    state: ClusterState, load: Load, topic: str, metric: Metric, order: Order
) -> PartitionMap:
    """Return a topic's partitions; by number for Order.NAME, else hottest first."""
    rows = np.array(state.partitions_of(topic), np.int64)
    values = partition_values(state, load, metric)[rows]
    if metric in (Metric.LEADERS, Metric.REPLICAS):
        # A partition has one leader: what tells partitions apart here is what they carry.
        values = load.in_bytes_per_s[rows]
    size = state.partition_size_bytes[rows].astype(np.float64)
    size[size < 0] = np.nan
    if order is not Order.NAME and len(rows):
        by = np.lexsort((rows, -np.nan_to_num(size, nan=-1.0), -np.nan_to_num(values, nan=-1.0)))
        rows, values, size = rows[by], values[by], size[by]
    known = values[~np.isnan(values)]
    return PartitionMap(
        topic, metric, rows, values, size, float(known.mean()) if len(known) else float("nan")
    )


def roles(state: ClusterState, row: int) -> dict[int, Role]:
    """Return what each broker that holds a replica of a partition is to it."""
    at = state.replica_slice(row)
    found: dict[int, Role] = {}
    leader = int(state.leader[row])
    for broker, in_sync, adding, removing in zip(
        state.replica_broker[at].tolist(),
        state.in_sync[at].tolist(),
        state.adding[at].tolist(),
        state.removing[at].tolist(),
        strict=True,
    ):
        if adding:
            role = Role.ARRIVING
        elif removing:
            role = Role.LEAVING
        elif not in_sync:
            role = Role.OUT_OF_SYNC
        else:
            role = Role.LEADER if broker == leader else Role.FOLLOWER
        found[broker] = role
    return found
