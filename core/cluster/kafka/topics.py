"""Topics and partitions on the wire: created, deleted, reassigned (KIP-455), led (KIP-460)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from core.cluster.client import NewPartitions, NewTopic
from core.cluster.kafka.wire import CONTROLLER_SECONDS, Wire, fault_from_code, raise_for_error
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import Reassignment, TopicPartition
from core.errors import TrimtabError

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
    return _submit_topic_changes(wire, request, lambda answer: answer.topics)


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
    return _submit_topic_changes(wire, request, lambda answer: answer.results)


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
    return _submit_topic_changes(wire, request, lambda answer: answer.responses)


def _submit_topic_changes(
    wire: Wire, request: Any, results: Callable[[Any], Iterable[Any]]
) -> dict[str, Fault | None]:
    """Return what the controller answers for each topic; an answer has no error as a whole."""
    answer = wire.ask_controller(request, lambda answer: [r.error_code for r in results(answer)])
    return {
        r.name: fault_from_code(r.error_code, getattr(r, "error_message", None))
        for r in results(answer)
    }


# -- reassignments and elections -------------------------------------------------------------------


def fetch_reassignments(wire: Wire) -> dict[TopicPartition, Reassignment]:
    """Return what is in flight."""
    return parse_reassignments(wire.ask_controller(build_list_request()))


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
    answer = wire.ask_controller(
        AlterPartitionReassignmentsRequest(
            timeout_ms=_MILLISECONDS,
            topics=[topic_type(name=name, partitions=p) for name, p in by_topic.items()],
        )
    )
    raise_for_error(answer, "alter partition reassignments", "ALTER on the cluster")
    return {
        TopicPartition(topic.name, partition.partition_index): fault_from_code(
            partition.error_code, partition.error_message
        )
        for topic in answer.responses
        for partition in topic.partitions
    }


def build_list_request() -> Any:
    """Return the request for everything in flight."""
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    return ListPartitionReassignmentsRequest(timeout_ms=_MILLISECONDS, topics=None)


def parse_reassignments(answer: Any) -> dict[TopicPartition, Reassignment]:
    """Return what an answer lists; raises when it is an error as a whole."""
    raise_for_error(answer, "list partition reassignments", "DESCRIBE on the cluster")
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


_PREFERRED, _UNCLEAN = 0, 1
_MAX_PARTITIONS = 1000
"""Partitions in one request: KRaft's controller refuses more than 10,000 as a whole, and while it
elects it does nothing else."""


def elect_leaders(
    wire: Wire, partitions: Collection[TopicPartition], *, unclean: bool = False
) -> dict[TopicPartition, Fault | None]:
    """Elect leaders; see ClusterClient."""
    every = list(partitions)
    answers: dict[TopicPartition, Fault | None] = {}
    for first in range(0, len(every), _MAX_PARTITIONS):
        batch = every[first : first + _MAX_PARTITIONS]
        try:
            answers |= _elect(wire, batch, unclean)
        except TrimtabError as error:
            if not answers:
                raise
            # What was elected before is not to be lost.
            answers |= dict.fromkeys(batch, Fault("UNKNOWN_SERVER_ERROR", error.title))
    return answers


def _elect(
    wire: Wire, partitions: Collection[TopicPartition], unclean: bool
) -> dict[TopicPartition, Fault | None]:
    from kafka.protocol.admin import ElectLeadersRequest

    topic_type = ElectLeadersRequest.TopicPartitions
    by_topic: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        by_topic[tp.topic].append(tp.partition)
    answer: Any = wire.ask_controller(
        ElectLeadersRequest(
            election_type=_UNCLEAN if unclean else _PREFERRED,
            topic_partitions=[topic_type(topic=t, partitions=p) for t, p in by_topic.items()],
            timeout_ms=_MILLISECONDS,
        )
    )
    raise_for_error(answer, "elect leaders", "ALTER on the cluster")
    return {
        TopicPartition(result.topic, partition.partition_id): fault_from_code(
            partition.error_code, partition.error_message
        )
        for result in answer.replica_election_results
        for partition in result.partition_result
    }
