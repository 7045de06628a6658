"""Polls of a large cluster, made up: every partition flows, every reading succeeds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from core.load import arrow as columns
from core.load import spool

CLUSTER = "bench"
START = datetime(2026, 3, 1, tzinfo=UTC)
REPLICAS = 3
BROKERS = 30
PARTITIONS_A_TOPIC = 100
POLL_SECONDS = 10


class Polls:
    """Polls of `partitions` partitions with three replicas each, ten seconds apart."""

    def __init__(self, partitions: int, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self.partitions = partitions
        topics = -(-partitions // PARTITIONS_A_TOPIC)
        rows = partitions * REPLICAS
        self._of = np.repeat(np.arange(partitions), REPLICAS)
        self._topics = [f"bench.topic-{t:05}" for t in range(topics)]
        self._ids = [f"id-{t:019}" for t in range(topics)]
        self._topic_of = (self._of // PARTITIONS_A_TOPIC).astype(np.int32)
        self._leads = np.arange(rows) % REPLICAS == 0
        self._broker = (self._of + np.tile([0, 1, 7], partitions)) % BROKERS
        self._mean = self._rng.lognormal(8, 2, partitions)
        self._size = np.full(partitions, 10**8)

    def feed(self, root: Path, number: int, start: datetime = START) -> Path:
        """Write poll `number` as a segment through the gate, and return where it was spooled."""
        rows, at = len(self._of), start + timedelta(seconds=POLL_SECONDS * number)
        amount = np.round(self._mean * POLL_SECONDS * self._rng.uniform(0.5, 1.5, self.partitions))
        self._size = self._size + amount.astype(np.int64)
        whole, real = pa.int64(), pa.float64()

        def constant(value: str):
            return columns.dictionary_array(np.zeros(rows, np.int32), [value])

        def each(value: float, kind):
            return columns.number_array(np.full(rows, value), kind)

        def led(values, kind):
            return columns.number_array(values[self._of], kind, self._leads)

        segment = spool.write_segment(
            root,
            CLUSTER,
            f"bench-{number:08d}",
            {
                "cluster_id": constant(CLUSTER),
                "topic": columns.dictionary_array(self._topic_of, self._topics),
                "topic_id": columns.dictionary_array(self._topic_of, self._ids),
                "partition": columns.number_array(self._of % PARTITIONS_A_TOPIC, pa.int32()),
                "broker_id": columns.number_array(self._broker, pa.int32()),
                "is_leader": columns.boolean_array(self._leads),
                "leader_epoch": each(1, pa.int32()),
                "ts": each(round(at.timestamp() * 1e6), pa.timestamp("us", "UTC")),
                "dt_ms": led(np.full(self.partitions, POLL_SECONDS * 1000), pa.int32()),
                "end_offset": led(self._size // 100, whole),
                "start_offset": led(np.zeros(self.partitions), whole),
                "offset_delta": led(amount // 100, whole),
                "size_delta": led(amount, whole),
                "size_bytes": columns.number_array(self._size[self._of], whole),
                "in_bytes": led(amount, real),
                "out_bytes": led(amount * 2, real),
                "in_method": each(2, pa.int8()),
                "out_method": each(3, pa.int8()),
                "replica_lag": each(0, whole),
                "group_lag": each(0, whole),
                "log_dir": constant("/var/lib/kafka"),
                "source": constant("admin"),
                "collector_id": constant("bench"),
                "poll_id": each(number, whole),
                "flags": each(0, pa.int32()),
            },
            at,
        )
        if segment is None:
            raise RuntimeError("the gate refused a poll of the bench")
        return segment
