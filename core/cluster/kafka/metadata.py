"""A description of the cluster in one exchange: metadata, brokers, reassignments, controller."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from core.cluster.kafka.topics import (
    build_list_request,
    fetch_reassignments,
    parse_reassignments,
)
from core.cluster.kafka.wire import NOT_CONTROLLER, Wire, raise_for_error
from core.cluster.metadata import Broker, PartitionRow, Reassignment, Topic, TopicPartition
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError

# A map without these two is better than none, so they get less time than the rest. They are asked
# when the rest is there: a broker answers one connection in order, and one that is closed because
# of them takes the metadata along, which of a large cluster on a slow line may take longer.
_CONTROLLER_SECONDS = 2.0
_REQUEST_TIMED_OUT = 7
_TOPIC_DENIED = 29
_UNKNOWN = object()
"""What stands for the answer to a request that the broker does not know."""


def describe_cluster(wire: Wire) -> ClusterState:
    """Return the cluster without sizes and topic configs; a screen waits for this."""
    metadata, cluster, moves, quorum = _fetch_raw_metadata(wire)
    raise_for_error(cluster, "describe the cluster", "DESCRIBE on the cluster")
    wire.check_cluster_id(cluster.cluster_id)
    wire.set_controller(metadata.controller_id)
    if moves is not _UNKNOWN:
        _update_reassignments(wire, moves)
    topics = [topic for topic in metadata.topics if topic.error_code == 0]
    in_flight = {} if moves is _UNKNOWN else wire.last_reassignments
    rows = [row for topic in topics for row in _build_rows(topic, in_flight)]
    return ClusterState.build(
        cluster_id=cluster.cluster_id,
        fetched_at=datetime.now(UTC),
        controller=_find_controller(quorum, metadata),
        brokers=_build_brokers(cluster.brokers, rows),
        topics=[Topic(topic.name, _topic_id(topic.topic_id)) for topic in topics],
        partitions=rows,
        # It takes a right that nothing else here does.
        moves_unknown="" if moves is _UNKNOWN else wire.moves_unknown,
    )


def ping(wire: Wire) -> None:
    """Ask any broker which brokers there are; raises what a call raises that is not answered."""
    from kafka.protocol.admin import DescribeClusterRequest

    answer = wire.send_to_any(DescribeClusterRequest(), wire.metadata_timeout)
    raise_for_error(answer, "describe the cluster", "DESCRIBE on the cluster")


def fetch_denied_topics(wire: Wire, names: Collection[str]) -> frozenset[str]:
    """Return which of these are denied by name: of all topics they are left out without a word."""
    from kafka.protocol.metadata import MetadataRequest

    if not names:
        return frozenset()
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = wire.send_to_any(request, wire.metadata_timeout)
    return frozenset(topic.name for topic in answer.topics if topic.error_code == _TOPIC_DENIED)


def _fetch_raw_metadata(wire: Wire) -> tuple[Any, Any, Any, Any]:
    """Return the answers to Metadata and DescribeCluster, what is in flight, and the quorum.

    The last two are None where the controller does not answer, _UNKNOWN of older brokers.
    """
    from kafka.protocol.admin import DescribeClusterRequest
    from kafka.protocol.metadata import MetadataRequest

    async def ask(manager: Any, node: int) -> tuple[Any, Any, Any, Any]:
        def send(request: Any, to: int, seconds: float) -> Any:
            return manager.send(request, node_id=to, request_timeout_ms=seconds * 1000)

        every_topic = MetadataRequest(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        seconds = wire.metadata_timeout.seconds
        metadata = send(every_topic, node, seconds)
        cluster = send(DescribeClusterRequest(include_fenced_brokers=True), node, seconds)
        metadata, cluster = await metadata, await cluster
        moves = send(build_list_request(), wire.controller_or(node), _CONTROLLER_SECONDS)
        quorum = send(_quorum_request(), node, _CONTROLLER_SECONDS)
        return metadata, cluster, await _await_optional(moves), await _await_optional(quorum)

    answers: tuple[Any, Any, Any, Any] = wire.ask_any(ask, wire.metadata_timeout)
    return answers


def _update_reassignments(wire: Wire, moves: Any) -> None:
    """Keep what is in flight, or that it may not be seen; while the controller is away, as it was.

    Nothing begins or ends without a controller, so what it last said is still so.
    """
    if moves is None or moves.error_code == _REQUEST_TIMED_OUT:
        return
    try:
        if moves.error_code == NOT_CONTROLLER:
            reassignments = fetch_reassignments(wire)
        else:
            reassignments = parse_reassignments(moves)
    except AccessDeniedError as error:
        wire.last_reassignments, wire.moves_unknown = {}, error.title
    else:
        wire.last_reassignments, wire.moves_unknown = reassignments, ""


def _find_controller(quorum: Any, metadata: Any) -> int | None:
    """Return who controls the cluster, who need not be a broker; None when it is not told.

    In their metadata KRaft brokers name any one of themselves. Brokers that know no quorum have
    ZooKeeper, and name the controller there.
    """
    if quorum is _UNKNOWN:
        return metadata.controller_id if metadata.controller_id >= 0 else None
    if quorum is None:
        return None
    leaders = [p.leader_id for topic in quorum.topics for p in topic.partitions]
    return leaders[0] if leaders and leaders[0] >= 0 else None


def _build_brokers(described: Iterable[Any], rows: Iterable[PartitionRow]) -> list[Broker]:
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


def _build_rows(topic: Any, moves: Mapping[TopicPartition, Reassignment]) -> Iterator[PartitionRow]:
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


def _quorum_request() -> Any:
    from kafka.protocol.admin import DescribeQuorumRequest

    topic_type = DescribeQuorumRequest.TopicData
    partition = topic_type.PartitionData(partition_index=0)
    return DescribeQuorumRequest(
        topics=[topic_type(topic_name="__cluster_metadata", partitions=[partition])]
    )


async def _await_optional(answer: Any) -> Any:
    """Return an answer; None when the controller does not give it, _UNKNOWN to an older broker."""
    from kafka.errors import KafkaError, UnsupportedVersionError

    try:
        return await answer
    except UnsupportedVersionError:
        return _UNKNOWN
    except KafkaError as error:
        if not getattr(error, "retriable", False):
            raise
        return None
