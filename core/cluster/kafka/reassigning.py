"""Reassignments on the wire (KIP-455): list, alter and cancel them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from core.cluster.client import Fault
from core.cluster.kafka.wire import CONTROLLER_SECONDS, Wire, fault, refuse
from core.cluster.state import Reassignment, TopicPartition


def reassignments(wire: Wire) -> dict[TopicPartition, Reassignment]:
    """Return what is in flight."""
    return read_reassignments(wire.controlled(list_request()))


def alter_reassignments(
    wire: Wire, targets: Mapping[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, Fault | None]:
    """Submit targets, None cancels; returns a fault or None for each partition."""
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest

    if not targets:
        return {}
    topic_type = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition_type = topic_type.ReassignablePartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, replicas in targets.items():
        by_topic[tp.topic].append(
            partition_type(
                partition_index=tp.partition,
                replicas=None if replicas is None else list(replicas),
            )
        )
    answer = wire.controlled(
        AlterPartitionReassignmentsRequest(
            timeout_ms=int(CONTROLLER_SECONDS * 1000),
            topics=[topic_type(name=name, partitions=p) for name, p in by_topic.items()],
        )
    )
    refuse(answer, "alter partition reassignments")
    return {
        TopicPartition(topic.name, partition.partition_index): fault(
            partition.error_code, partition.error_message
        )
        for topic in answer.responses
        for partition in topic.partitions
    }


def list_request() -> Any:
    """Return the request for everything in flight."""
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    return ListPartitionReassignmentsRequest(timeout_ms=int(CONTROLLER_SECONDS * 1000), topics=None)


def read_reassignments(answer: Any) -> dict[TopicPartition, Reassignment]:
    """Return what an answer lists; raises when it is an error as a whole."""
    refuse(answer, "list partition reassignments")
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }
