"""KafkaClient: real brokers behind ClusterClient.

confluent-kafka does configs, elections, offsets and groups; kafka-python what librdkafka lacks.
That includes `describe`: librdkafka's metadata has neither topic ids nor leader epochs nor fenced
brokers, and asking it for topic ids takes four times as long as reading the whole answer here.
Each library is loaded at its first call.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from core.cluster.admin import Admin
from core.cluster.client import (
    ConfigChange,
    ConfigValue,
    Fault,
    Group,
    OffsetAt,
    Resource,
)
from core.cluster.connection import ConnectionSettings
from core.cluster.state import (
    Broker,
    BrokerLogs,
    ClusterState,
    PartitionRow,
    Reassignment,
    Topic,
    TopicPartition,
)
from core.cluster.wire import Wire


class KafkaClient:
    """One cluster of real brokers; see ClusterClient for what each call promises."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._wire = Wire(settings)
        self._admin = Admin(settings)

    def describe(self) -> ClusterState:
        picture = self._wire.picture()
        topics = [topic for topic in picture.metadata.topics if topic.error_code == 0]
        rows = [row for topic in topics for row in _rows(topic, picture.reassignments)]
        return ClusterState.build(
            cluster_id=picture.cluster.cluster_id,
            fetched_at=datetime.now(UTC),
            controller=picture.controller,
            brokers=_brokers(picture.cluster.brokers, rows),
            topics=[Topic(topic.name, _topic_id(topic.topic_id)) for topic in topics],
            partitions=rows,
        )

    def log_dirs(self, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
        return self._wire.log_dirs(brokers)

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        return self._wire.reassignments()

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        return self._wire.alter_reassignments(targets)

    def cancel(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Fault | None]:
        return self._wire.alter_reassignments(dict.fromkeys(partitions))

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        return self._wire.alter_log_dirs(moves)

    def configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        return self._admin.configs(resources, names)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        return self._admin.alter_configs(changes)

    def elect_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        return self._admin.elect_leaders(partitions)

    def offsets(
        self, partitions: Collection[TopicPartition], at: OffsetAt
    ) -> dict[TopicPartition, int]:
        return self._admin.offsets(partitions, at)

    def groups(self) -> tuple[Group, ...]:
        return self._admin.groups()

    def close(self) -> None:
        self._wire.close()
        self._admin.close()


def _brokers(described: Iterable[Any], rows: Iterable[PartitionRow]) -> list[Broker]:
    """Return the brokers told of, and as dead ones those that only partitions still name."""
    brokers = {
        b.broker_id: Broker(b.broker_id, b.rack or None, b.host, b.port, alive=not b.is_fenced)
        for b in described
    }
    for row in rows:
        for broker in row.replicas:
            if broker not in brokers:
                brokers[broker] = Broker(broker, alive=False)
    return list(brokers.values())


def _rows(topic: Any, moves: Mapping[TopicPartition, Reassignment]) -> Iterator[PartitionRow]:
    for partition in topic.partitions:
        replicas = tuple(partition.replica_nodes)
        move = moves.get(TopicPartition(topic.name, partition.partition_index))
        if move is not None and set(move.replicas) != set(replicas):
            # The two answers are of different moments: it has ended, or begun, in between.
            move = None
        yield PartitionRow(
            topic=topic.name,
            partition=partition.partition_index,
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            replicas=replicas,
            isr=tuple(partition.isr_nodes),
            adding=move.adding if move else (),
            removing=move.removing if move else (),
        )


def _topic_id(id: UUID | None) -> str | None:
    """Return a topic id as Kafka writes it (base64url); None when the broker has none."""
    if id is None or id.int == 0:
        return None
    return urlsafe_b64encode(id.bytes).decode().rstrip("=")
