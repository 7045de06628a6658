"""The simulated cluster's answers to describe, create-topics and create-partitions requests.

New topics and partitions are refused as by ReplicationControlManager.createTopic and
createPartitions (Kafka 4.x).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np

from core.cluster.client import NewPartitions, NewTopic
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs, ReplicaLog
from core.cluster.metadata import UNKNOWN, Broker, LogDir, Topic, TopicPartition
from core.cluster.simulation import controller
from core.cluster.simulation.controller import Registration
from core.cluster.simulation.engine import Engine
from core.cluster.simulation.logs import Float64
from core.cluster.simulation.spec import ClusterSpec
from core.cluster.state import Bool, ClusterState, Int32, read_only
from core.cluster.topics import is_legal_name

NO_ANSWER = "the broker does not answer"
_NO_RECORDS = Fault("UNSUPPORTED_VERSION", "a simulated cluster keeps no records")


def build_state(
    engine: Engine, spec: ClusterSpec, now: datetime, hidden: Collection[str]
) -> ClusterState:
    """Return the cluster as a user is told it who may not describe the topics `hidden`.

    Sizes and lags are the log dirs' to tell. Columns are filled here and not from rows, which
    takes a third of the time.
    """
    rows = [row for row in engine.live_rows() if engine.partitions[row].topic not in hidden]
    partitions = [engine.partitions[row] for row in rows]
    names = sorted({tp.topic for tp in partitions})
    index = {name: i for i, name in enumerate(names)}
    registrations = [engine.registrations[row] for row in rows]
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(r.replicas) for r in registrations], out=start[1:])
    unknown = read_only(np.full(int(start[-1]), UNKNOWN, np.int64))

    def column(values: list[int]) -> Int32:
        return read_only(np.array(values, np.int32))

    def marks(values: list[bool]) -> Bool:
        return read_only(np.array(values, np.bool_))

    return ClusterState(
        cluster_id=spec.cluster_id,
        fetched_at=now,
        controller=spec.controller,
        brokers=tuple(
            Broker(b.id, b.rack, f"b{b.id}.sim", 9092, b.id in engine.alive)
            for b in sorted(spec.brokers, key=lambda b: b.id)
        ),
        topics=tuple(Topic(name, engine.topic_ids[name]) for name in names),
        topic_of=column([index[tp.topic] for tp in partitions]),
        partition=column([tp.partition for tp in partitions]),
        leader=column([r.leader for r in registrations]),
        leader_epoch=column([r.leader_epoch for r in registrations]),
        replica_start=read_only(start),
        replica_broker=column([b for r in registrations for b in r.replicas]),
        in_sync=marks([b in r.isr for r in registrations for b in r.replicas]),
        adding=marks([b in r.adding for r in registrations for b in r.replicas]),
        removing=marks([b in r.removing for r in registrations for b in r.replicas]),
        size_bytes=unknown,
        lag=unknown,
        log_dir=read_only(unknown.astype(np.int32)),
    )


def build_broker_logs(engine: Engine, broker: int, used_bytes: Float64) -> BrokerLogs:
    """Return one broker's log dirs; `used_bytes` by its column and log dir."""
    if broker not in engine.alive:
        return BrokerLogs(broker, error=NO_ANSWER)
    column = engine.logs.column[broker]
    paths = engine.disks.paths[broker]
    offline = engine.disks.offline[broker]
    used = used_bytes[column]
    dirs = tuple(
        LogDir(path, error="KAFKA_STORAGE_ERROR")
        if i in offline
        else LogDir(
            path,
            engine.disks.total_bytes[broker][i],
            engine.disks.usable_bytes(broker, i, used[i] + engine.disks.copied_bytes(broker, i)),
        )
        for i, path in enumerate(paths)
        if i not in engine.disks.removed[broker]
    )
    logs = engine.logs
    held = np.flatnonzero(logs.holds[:, column])
    sizes = (logs.position[held, column] - logs.start[held]).tolist()
    behind = logs.end[held] - logs.position[held, column]
    lags = np.ceil(behind / logs.message_bytes[held]).astype(np.int64).tolist()
    places = logs.log_dir[held, column].tolist()
    replicas = [
        ReplicaLog(*engine.partitions[row], int(size), lag, paths[place])
        for row, size, lag, place in zip(held.tolist(), sizes, lags, places, strict=True)
        if place not in offline
    ]
    replicas += [
        ReplicaLog(*engine.partitions[row], int(move.copied_bytes), 0, paths[move.to], True)
        for (row, at), move in engine.disks.moves.items()
        if at == broker
    ]
    return BrokerLogs(broker, dirs, tuple(replicas))


def unsupported(
    offsets_of: Mapping[int, Iterable[TopicPartition]],
) -> dict[tuple[TopicPartition, int], Fault]:
    """Return what each broker answers who asks for records of its replicas, or where they end."""
    return {(tp, broker): _NO_RECORDS for broker, tps in offsets_of.items() for tp in tps}


Layout = Sequence[tuple[int, ...]]


def create_topic(engine: Engine, topic: NewTopic) -> Fault | None:
    """Create a topic, or return why not."""
    if not is_legal_name(topic.name):
        return Fault("INVALID_TOPIC_EXCEPTION", f"Topic name is invalid: {topic.name!r}")
    if topic.name in engine.topic_ids:
        return Fault("TOPIC_ALREADY_EXISTS", f"Topic '{topic.name}' already exists.")
    if not topic.replicas:
        return Fault("INVALID_PARTITIONS", "Number of partitions was set to an invalid value.")
    wrong = _check_layout(engine, topic.replicas, len(topic.replicas[0]))
    if wrong is not None:
        return wrong
    resource = Resource.topic(topic.name)
    changes = [ConfigChange(resource, n, ConfigOp.SET, v) for n, v in topic.configs.items()]
    refused = engine.configs.apply(changes)
    if refused is None:
        engine.add_partitions(topic.name, _build_registrations(topic.replicas, engine.alive))
    return refused


def extend_topic(engine: Engine, topic: str, new: NewPartitions) -> Fault | None:
    """Add partitions to a topic, or return why not."""
    rows = [row for tp, row in engine.index.items() if tp.topic == topic]
    if not rows:
        return controller.UNKNOWN_PARTITION
    if new.total <= len(rows):
        has = f"Topic currently has {len(rows)} partitions"
        if new.total == len(rows):
            return Fault("INVALID_PARTITIONS", f"Topic already has {new.total} partition(s).")
        return Fault(
            "INVALID_PARTITIONS", f"{has}, which is higher than the requested {new.total}."
        )
    if len(new.replicas) != new.total - len(rows):
        return Fault(
            "INVALID_REPLICA_ASSIGNMENT",
            f"Attempted to add {new.total - len(rows)} additional partition(s), but only "
            f"{len(new.replicas)} assignment(s) were specified.",
        )
    replicas = len(engine.registrations[rows[0]].target)
    wrong = _check_layout(engine, new.replicas, replicas)
    if wrong is None:
        engine.add_partitions(topic, _build_registrations(new.replicas, engine.alive))
    return wrong


def _check_layout(engine: Engine, layout: Layout, replicas: int) -> Fault | None:
    for number, assignment in enumerate(layout):
        wrong = controller.check_assignment(assignment, engine.disks.paths)
        if wrong is not None:
            return wrong
        if len(assignment) != replicas:
            return Fault(
                "INVALID_REPLICA_ASSIGNMENT",
                f"The manual partition assignment includes a partition with {len(assignment)} "
                f"replica(s), but this is not consistent with previous partitions, which have "
                f"{replicas} replica(s).",
            )
        if not engine.alive.intersection(assignment):
            return Fault(
                "INVALID_REPLICA_ASSIGNMENT",
                "All brokers specified in the manual partition assignment for partition "
                f"{number} are fenced or in controlled shutdown.",
            )
    return None


def _build_registrations(layout: Layout, alive: Collection[int]) -> list[Registration]:
    """Return new partitions: in sync is who is up, and the first of these leads."""
    registrations = []
    for replicas in layout:
        isr = tuple(broker for broker in replicas if broker in alive)
        registrations.append(Registration(replicas, isr, isr[0]))
    return registrations
