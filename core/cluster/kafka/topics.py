"""Topics on the wire: created with exact replicas, given more partitions, deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from core.cluster.client import NewPartitions, NewTopic
from core.cluster.kafka.wire import CONTROLLER_SECONDS, Wire, fault_from_code
from core.cluster.kafka_errors import Fault

_MILLISECONDS = int(CONTROLLER_SECONDS * 1000)


def create_topics(wire: Wire, topics: Collection[NewTopic]) -> dict[str, Fault | None]:
    """Create topics; see ClusterClient."""
    from kafka.protocol.admin import CreateTopicsRequest

    if not topics:
        return {}
    topic_type = CreateTopicsRequest.CreatableTopic
    assignment, config = topic_type.CreatableReplicaAssignment, topic_type.CreatableTopicConfig
    request = CreateTopicsRequest(
        topics=[
            topic_type(
                name=topic.name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    assignment(partition_index=number, broker_ids=list(replicas))
                    for number, replicas in enumerate(topic.replicas)
                ],
                configs=[config(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=_MILLISECONDS,
        validate_only=False,
    )
    return _parse_faults(
        wire.ask_controller(request, lambda answer: _error_codes(answer.topics)).topics
    )


def add_partitions(wire: Wire, additions: Mapping[str, NewPartitions]) -> dict[str, Fault | None]:
    """Add partitions; see ClusterClient."""
    from kafka.protocol.admin import CreatePartitionsRequest

    if not additions:
        return {}
    topic_type = CreatePartitionsRequest.CreatePartitionsTopic
    assignment = topic_type.CreatePartitionsAssignment
    request = CreatePartitionsRequest(
        topics=[
            topic_type(
                name=name,
                count=new.total,
                assignments=[assignment(broker_ids=list(replicas)) for replicas in new.replicas],
            )
            for name, new in additions.items()
        ],
        timeout_ms=_MILLISECONDS,
        validate_only=False,
    )
    return _parse_faults(
        wire.ask_controller(request, lambda answer: _error_codes(answer.results)).results
    )


def delete_topics(wire: Wire, names: Collection[str]) -> dict[str, Fault | None]:
    """Delete topics; see ClusterClient."""
    from kafka.protocol.admin import DeleteTopicsRequest

    if not names:
        return {}
    request = DeleteTopicsRequest(
        # Brokers before 2.8 take names alone, later ones a name or an id each.
        topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=_MILLISECONDS,
    )
    return _parse_faults(
        wire.ask_controller(request, lambda answer: _error_codes(answer.responses)).responses
    )


def _error_codes(results: Iterable[Any]) -> list[int]:
    return [result.error_code for result in results]


def _parse_faults(results: Iterable[Any]) -> dict[str, Fault | None]:
    return {
        r.name: fault_from_code(r.error_code, getattr(r, "error_message", None)) for r in results
    }
