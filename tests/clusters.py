"""Small clusters for tests of plans, written as one reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from core.cluster.log_dirs import BrokerLogs, ReplicaLog, with_log_dirs
from core.cluster.metadata import Broker, LogDir, PartitionRow, Topic, TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.plan import Move, Plan, current_target

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
    log_dirs: Sequence[LogDir] | Mapping[int, Sequence[LogDir]] = (),
    paths: Mapping[str, Sequence[str]] | None = None,
    can_take_in: float | Mapping[int, float] | None = None,
    can_send: float | Mapping[int, float] | None = None,
) -> ClusterState:
    """Return a cluster of partitions `{"t-0": [1, 2]}`; sizes are unknown unless given.

    `disk_bytes` is (total, usable) of each broker's one log dir. Log dirs and capacities (bytes/s)
    are of all brokers, or by broker; `paths` are the log dirs of partitions' replicas, else /data.
    """
    leaders, isr, adding, removing = leaders or {}, isr or {}, adding or {}, removing or {}
    paths = paths or {}
    ids = sorted(brokers or {b for held in replicas.values() for b in held})
    if disk_bytes:
        log_dirs = (LogDir("/data", *disk_bytes),)
    dirs = {
        b: tuple(log_dirs.get(b, ()) if isinstance(log_dirs, Mapping) else log_dirs) for b in ids
    }
    into, out = (
        can if isinstance(can, Mapping) else dict.fromkeys(ids, can)
        for can in (can_take_in, can_send)
    )
    state = ClusterState.build(
        cluster_id="test-cluster",
        fetched_at=NOON,
        brokers=[
            Broker(
                b,
                (racks or {}).get(b),
                alive=b not in dead,
                log_dirs=dirs[b],
                in_capacity_bytes_per_s=into.get(b),
                out_capacity_bytes_per_s=out.get(b),
            )
            for b in ids
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
    hosted: dict[int, list[ReplicaLog]] = {b: [] for b in ids}
    for name in (name for name in replicas if name in sizes):
        held = replicas[name]
        for b, path in zip(held, paths.get(name) or ["/data"] * len(held), strict=True):
            if b in hosted:
                hosted[b].append(ReplicaLog(*tp(name), sizes[name], 0, path))
    return with_log_dirs(state, [BrokerLogs(b, dirs[b], tuple(hosted[b])) for b in ids])


def plan_of(state: ClusterState, targets: Mapping[str, Sequence[int]]) -> Plan:
    """Return the plan that ends partitions on these brokers."""
    moves = []
    for name, after in targets.items():
        topic, before = state.topic(tp(name).topic), current_target(state, tp(name))
        moves.append(Move(tp(name), before, tuple(after), topic.id if topic else None))
    return Plan.of(moves, cluster_id=state.cluster_id)


def placed(state: ClusterState, plan: Plan) -> dict[str, tuple[int, ...]]:
    """Return every partition's replicas once a plan is done."""
    tps = [state.tp(row) for row in range(state.partition_count)]
    return {str(partition): plan.target(state, partition) for partition in tps}


def load_of(state: ClusterState, in_bytes_per_s: Mapping[str, float] | float = 0.0) -> Load:
    """Return a load; partitions that a mapping leaves out are unknown."""
    if isinstance(in_bytes_per_s, Mapping):
        rates = np.array(
            [in_bytes_per_s.get(str(state.tp(i)), np.nan) for i in range(state.partition_count)]
        )
    else:
        rates = np.full(state.partition_count, float(in_bytes_per_s))
    return Load(rates, rates.copy(), rates.copy(), None, None)
