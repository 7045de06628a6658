"""Polls of clusters as large as a bench wants them, as columns of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from core.load import arrow as columns
from core.load import spool

CLUSTER = "bench"
REPLICAS = 3
BROKERS = 30
PARTITIONS_A_TOPIC = 100
POLL_SECONDS = 10


class Polls:
    """Polls of clusters with `partitions` partitions each, and three replicas of each of them."""

    def __init__(
        self, partitions: int, clusters: Sequence[str] = (CLUSTER,), seed: int = 0
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self.partitions = partitions
        self.clusters = tuple(clusters)
        self.total = partitions * len(self.clusters)
        topics = -(-partitions // PARTITIONS_A_TOPIC)
        self._topics = [f"bench.topic-{t:05}" for t in range(topics)]
        self._ids = [f"id-{t:019}" for t in range(topics)]
        self._mean = self._rng.lognormal(8, 2, self.total)
        self._size = np.full(self.total, 10**8)

    def rows(
        self,
        number: int,
        at: datetime,
        *,
        followers: bool = True,
        rubbish: str | None = None,
        stalled: str | None = None,
    ) -> dict[str, Any]:
        """Return poll `number` as the sample's columns, of leaders alone or of all replicas.

        A fifth of the rows of the cluster `rubbish` cannot be; of the cluster `stalled` are none.
        """
        amount = np.round(self._mean * POLL_SECONDS * self._rng.uniform(0.5, 1.5, self.total))
        self._size = self._size + amount.astype(np.int64)
        of = np.arange(self.total)
        if stalled is not None:
            of = of[of // self.partitions != self.clusters.index(stalled)]
        replica = np.zeros(len(of), np.int64)
        if followers:
            replica = np.tile(np.arange(REPLICAS), len(of))
            of = np.repeat(of, REPLICAS)
        here, leads, count = of % self.partitions, replica == 0, len(of)
        topic_of = (here // PARTITIONS_A_TOPIC).astype(np.int32)
        broker = (here + np.array([0, 1, 7])[replica]) % BROKERS
        whole, real = pa.int64(), pa.float64()

        def constant(value: str) -> Any:
            return columns.dictionary_array(np.zeros(count, np.int32), [value])

        def each(value: float, kind: Any) -> Any:
            return columns.number_array(np.full(count, value), kind)

        def leader_values(values: Any, kind: Any) -> Any:
            return columns.number_array(values[of], kind, leads)

        zero = np.zeros(self.total)
        cluster_of = (of // self.partitions).astype(np.int32)
        size = self._size[of]
        if rubbish is not None:
            bad = (cluster_of == self.clusters.index(rubbish)) & (np.arange(count) % 5 == 0)
            size = np.where(bad, -7, size)
        return {
            "cluster_id": columns.dictionary_array(cluster_of, self.clusters),
            "topic": columns.dictionary_array(topic_of, self._topics),
            "topic_id": columns.dictionary_array(topic_of, self._ids),
            "partition": columns.number_array(here % PARTITIONS_A_TOPIC, pa.int32()),
            "broker_id": columns.number_array(broker, pa.int32()),
            "is_leader": columns.boolean_array(leads),
            "leader_epoch": each(1, pa.int32()),
            "ts": each(round(at.timestamp() * 1e6), pa.timestamp("us", "UTC")),
            "dt_ms": leader_values(zero + POLL_SECONDS * 1000, pa.int32()),
            "end_offset": leader_values(self._size // 100, whole),
            "start_offset": leader_values(zero, whole),
            "offset_delta": leader_values(amount // 100, whole),
            "size_delta": leader_values(amount, whole),
            "size_bytes": columns.number_array(size, whole),
            "in_bytes": leader_values(amount, real),
            "out_bytes": leader_values(amount * 2, real),
            "in_method": each(2, pa.int8()),
            "out_method": each(3, pa.int8()),
            "replica_lag": each(0, whole),
            "group_lag": each(0, whole),
            "log_dir": constant("/var/lib/kafka"),
            "source": constant("admin"),
            "collector_id": constant("bench"),
            "poll_id": each(number, whole),
            "flags": each(0, pa.int32()),
        }

    def feed(self, root: Path, number: int, at: datetime) -> Path:
        """Write poll `number` of the one cluster as a segment through the gate.

        Returns where it was spooled.
        """
        (cluster,) = self.clusters
        rows: Mapping[str, Any] = self.rows(number, at)
        segment = spool.write_segment(root, cluster, f"bench-{number:08d}", rows, at)
        if segment is None:
            raise RuntimeError("the gate refused a poll of the bench")
        return segment
