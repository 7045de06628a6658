"""Replicas whose logs are batches in memory, read as real brokers let them be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from run_help import MB, Faulty, cluster

from core.cluster.client import OffsetAt, ReplicaRecords
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedClock, SimulatedCluster
from core.watch.replicas.record_batches import batches

TP = TopicPartition("orders", 0)
GZIP = 1


def batch(first: int, values: Mapping[int, str] | Sequence[str], codec: int = 0) -> bytes:
    """Return a batch from offset `first` on; of a mapping, the offsets that compaction has left."""
    held = values if isinstance(values, Mapping) else dict(enumerate(values, first))
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )
    for at, value in held.items():
        builder.append(at - first, 1_700_000_000_000 + at, b"key", value.encode(), [])
    return first.to_bytes(8, "big") + bytes(builder.build())[8:]


def flipped(body: bytes, at: int, bit: int = 1) -> bytes:
    """Return bytes with one bit of one of them turned."""
    return body[:at] + bytes([body[at] ^ bit]) + body[at + 1 :]


class Replicas(Faulty):
    """A cluster of which `logs` holds what each broker's replica of orders-0 has, in batches."""

    def __init__(self, logs: Mapping[int, Sequence[bytes]], simulated: SimulatedCluster) -> None:
        super().__init__(simulated)
        self.logs = {broker: list(held) for broker, held in logs.items()}
        self.starts: dict[int, int] = {}
        self.high: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.faults: dict[int, Fault] = {}
        self.read = 0
        self.client_clock = SimulatedClock(simulated)
        self.replaced |= {"fetch_replica_offsets": self._offsets, "fetch_records": self._read}

    @classmethod
    def of(cls, logs: Mapping[int, Sequence[bytes]]) -> Replicas:
        return cls(logs, cluster({"orders": [tuple(logs)]}, in_bytes_per_s=1.0 * MB))

    def end(self, broker: int) -> int:
        if broker in self.ends:
            return self.ends[broker]
        return max((span.last + 1 for span in batches(b"".join(self.logs[broker]))), default=0)

    def _offsets(
        self, real: Any, offsets_by_broker: Mapping[int, Collection[TopicPartition]], at: OffsetAt
    ) -> dict[tuple[TopicPartition, int], int | Fault]:
        return {
            (TP, b): self.starts.get(b, 0) if at is OffsetAt.EARLIEST else self.end(b)
            for b in offsets_by_broker
        }

    def _read(
        self,
        real: Any,
        offsets_by_broker: Mapping[int, Mapping[TopicPartition, int]],
        max_bytes: int,
    ) -> dict[tuple[TopicPartition, int], ReplicaRecords | Fault]:
        self.read += 1
        return {
            (TP, b): self._given(b, offsets[TP], max_bytes)
            for b, offsets in offsets_by_broker.items()
        }

    def _given(self, broker: int, at: int, max_bytes: int) -> ReplicaRecords | Fault:
        if broker in self.faults:
            return self.faults[broker]
        high = self.high.get(broker, self.end(broker))
        if not self.starts.get(broker, 0) <= at <= self.end(broker):
            return Fault("OFFSET_OUT_OF_RANGE")
        payload = b""
        for body in self.logs[broker]:
            first = int.from_bytes(body[:8], "big")
            last = first + int.from_bytes(body[23:27], "big")
            if last >= at and last < high:
                payload += body
        # Brokers cut where the room ends, and give the first batch whole.
        first_length = 12 + int.from_bytes(payload[8:12], "big") if payload else 0
        return ReplicaRecords(high, payload[: max(max_bytes, min(first_length, len(payload)))])
