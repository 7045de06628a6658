"""Small clusters for tests of plans, written as one reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from core.cluster.log_dirs import BrokerLogs, ReplicaLog, with_log_dirs
from core.cluster.metadata import Broker, LogDir, PartitionRow, Topic, TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load

MB = 1_000_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def tp(name: str) -> TopicPartition:
    """Return `T1-0` as a TopicPartition."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def cluster(
    replicas: Mapping[str, Sequence[int]],
    *,
    brokers: Sequence[int] | None = None,
    racks: Mapping[int, str] | None = None,
    dead: Sequence[int] = (),
    leaders: Mapping[str, int] | None = None,
    isr: Mapping[str, Sequence[int]] | None = None,
    adding: Mapping[str, Sequence[int]] | None = None,
    removing: Mapping[str, Sequence[int]] | None = None,
    topics: Sequence[Topic] = (),
    size_bytes: int | Mapping[str, int] | None = None,
    disk_bytes: tuple[int, int] | None = None,
) -> ClusterState:
    """Return a cluster of partitions `{"t-0": [1, 2]}`; sizes are unknown unless given.

    `disk_bytes` is (total, usable) of each broker's one log dir.
    """
    leaders, isr, adding, removing = leaders or {}, isr or {}, adding or {}, removing or {}
    ids = sorted(brokers or {b for held in replicas.values() for b in held})
    log_dirs = (LogDir("/data", *disk_bytes),) if disk_bytes else ()
    state = ClusterState.build(
        cluster_id="test-cluster",
        fetched_at=NOON,
        brokers=[
            Broker(b, (racks or {}).get(b), alive=b not in dead, log_dirs=log_dirs) for b in ids
        ],
        topics=topics,
        partitions=[
            PartitionRow(
                *tp(name),
                leader=leaders.get(name, held[0]),
                replicas=tuple(held),
                isr=tuple(isr.get(name, held)),
                adding=tuple(adding.get(name, ())),
                removing=tuple(removing.get(name, ())),
            )
            for name, held in replicas.items()
        ],
    )
    if size_bytes is None:
        return state
    sizes = dict.fromkeys(replicas, size_bytes) if isinstance(size_bytes, int) else dict(size_bytes)
    logs = (
        BrokerLogs(
            b,
            log_dirs,
            tuple(
                ReplicaLog(*tp(name), sizes[name], 0, "/data")
                for name, held in replicas.items()
                if b in held and name in sizes
            ),
        )
        for b in ids
    )
    return with_log_dirs(state, logs)


def load_of(state: ClusterState, in_bytes_per_s: Mapping[str, float] | float = 0.0) -> Load:
    """Return a load; partitions that a mapping leaves out are unknown."""
    if isinstance(in_bytes_per_s, Mapping):
        rates = np.array(
            [in_bytes_per_s.get(str(state.tp(i)), np.nan) for i in range(state.partition_count)]
        )
    else:
        rates = np.full(state.partition_count, float(in_bytes_per_s))
    return Load(rates, rates.copy(), rates.copy(), None, None)
