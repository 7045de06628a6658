"""Records as the metrics reporters of Cruise Control and AutoMQ write them, and a topic of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

import numpy as np

from core.cluster.client import TopicRecord
from core.cluster.simulation.cluster import SimulatedCluster

TOPIC_IN, TOPIC_OUT, PARTITION_SIZE = 2, 3, 4
"""Of Cruise Control."""
TICK_SECONDS = 5
"""How often a meter takes in what it has counted."""


def cruise_control_record(
    type_id: int,
    at_ms: int,
    broker: int,
    value: float,
    topic: str | None = None,
    partition: int | None = None,
    *,
    version: int = 0,
) -> bytes:
    """Return what `MetricSerde.toBytes` makes of a metric of a broker, topic or partition."""
    class_id = 0 if topic is None else 1 if partition is None else 2
    out = struct.pack(">bbbqi", class_id, version, type_id, at_ms, broker)
    if topic is not None:
        name = topic.encode()
        out += struct.pack(">i", len(name)) + name
    if partition is not None:
        out += struct.pack(">i", partition)
    return out + struct.pack(">d", value)


def automq_record(
    at_ms: int,
    broker: int,
    values: Mapping[int, float],
    topic: str | None = None,
    partition: int = -1,
    *,
    rack: str = "",
    version: int = 0,
) -> bytes:
    """Return what AutoMQ's `MetricSerde.toBytes` makes of a metric of a partition or broker."""
    out = struct.pack(">bbqi", 0 if topic is not None else 1, version, at_ms, broker)
    out += struct.pack(">i", len(rack.encode())) + rack.encode()
    if topic is not None:
        out += struct.pack(">i", len(topic.encode())) + topic.encode()
        out += struct.pack(">i", partition)
    out += struct.pack(">i", len(values))
    return out + b"".join(struct.pack(">bd", name, value) for name, value in values.items())


class FakeTopic:
    """A topic of records; see TopicReader."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.since: list[datetime] = []
        self._read = 0

    def read(
        self, partitions: Collection[int], since: datetime, now: datetime
    ) -> Iterator[list[TopicRecord]]:
        self.since.append(since)
        new = self.records[self._read :]
        yield [TopicRecord(0, self._read + i, value) for i, value in enumerate(new)]
        self._read = len(self.records)

    def close(self) -> None: ...


class CruiseControlReporters:
    """The reporters in a simulated cluster's brokers, each with its meters and its own minute."""

    def __init__(self, cluster: SimulatedCluster, topic: FakeTopic) -> None:
        self._cluster, self._topic = cluster, topic
        self._ends = cluster._engine.logs.end.copy()
        self._meters: dict[tuple[int, str], float] = {}

    def advance(self, seconds: int) -> None:
        """Let time pass; meters tick, and each broker reports once a minute."""
        for _ in range(seconds // TICK_SECONDS):
            self._cluster.advance(TICK_SECONDS)
            self._tick()
            for place, broker in enumerate(self._cluster.describe_cluster().brokers):
                if self._cluster.elapsed_seconds % 60 == 5 * (place % 12):
                    self._report(broker.id)

    def _tick(self) -> None:
        state = self._cluster.describe_cluster()
        ends = self._cluster._engine.logs.end.copy()
        counted: dict[tuple[int, str], float] = {}
        for row, came in enumerate((ends - self._ends).tolist()):
            key = int(state.leader[row]), state.tp(row).topic.replace(".", "_")
            counted[key] = counted.get(key, 0.0) + came / TICK_SECONDS
        self._ends = ends
        weight = 1 - math.exp(-TICK_SECONDS / 60)
        for key, rate in counted.items():
            # A meter's first tick is taken whole.
            before = self._meters.get(key, rate)
            self._meters[key] = before + weight * (rate - before)

    def _report(self, broker: int) -> None:
        at_ms = round(self._cluster.now.timestamp() * 1000)
        put = self._topic.records.append
        for (leader, topic), rate in self._meters.items():
            if leader == broker:
                put(cruise_control_record(TOPIC_IN, at_ms, broker, rate, topic))
                put(cruise_control_record(TOPIC_OUT, at_ms, broker, 2 * rate, topic))
        (answer,) = self._cluster.describe_log_dirs([broker])
        for log in answer.replicas:
            name = log.topic.replace(".", "_")
            put(
                cruise_control_record(
                    PARTITION_SIZE, at_ms, broker, float(log.size_bytes), name, log.partition
                )
            )
        put(cruise_control_record(5, at_ms, broker, 0.25))  # its CPU, which is of no use here


def relative_errors(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return by how much each value is off, as a share of the true one."""
    return np.abs(values / truth - 1)
