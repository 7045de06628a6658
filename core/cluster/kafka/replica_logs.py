"""Single replicas on the wire, followers too: where their logs begin and end, what is in them.

A consumer may fetch from a follower since KIP-392 (Fetch 11, Kafka 2.4), and is given what lies
below that replica's own high watermark. Where logs begin and end is asked as Kafka's own debugging
replica does (-2): any other is sent to the leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from core.cluster.client import Fault, OffsetAt, ReplicaRead
from core.cluster.kafka.wire import Wire, fault
from core.cluster.state import TopicPartition

_DEBUGGING = -2
_CONSUMER = -1
_TIMES = {OffsetAt.EARLIEST: -2, OffsetAt.LATEST: -1}
_FOLLOWERS_ANSWER, _LAST_WITH_NAMES = 11, 12
_SECONDS = 30.0

_V = TypeVar("_V")


def replica_offsets(
    wire: Wire, asked: Mapping[int, Collection[TopicPartition]], at: OffsetAt
) -> dict[tuple[TopicPartition, int], int | Fault]:
    """Return where replicas' logs begin or end; see ClusterClient."""
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_type = ListOffsetsRequest.ListOffsetsTopic

    def request(tps: Collection[TopicPartition]) -> Any:
        return ListOffsetsRequest(
            replica_id=_DEBUGGING,
            isolation_level=0,
            timeout_ms=int(_SECONDS * 1000),
            topics=[
                topic_type(
                    name=topic,
                    partitions=[
                        topic_type.ListOffsetsPartition(
                            partition_index=p, current_leader_epoch=-1, timestamp=_TIMES[at]
                        )
                        for p in partitions
                    ],
                )
                for topic, partitions in _by_topic(tps).items()
            ],
        )

    return _answers(
        wire,
        asked,
        {broker: request(tps) for broker, tps in asked.items()},
        lambda answer: (
            (TopicPartition(topic.name, p.partition_index), p.error_code, p)
            for topic in answer.topics
            for p in topic.partitions
        ),
        lambda p: int(p.offset),
    )


def read_replicas(
    wire: Wire, asked: Mapping[int, Mapping[TopicPartition, int]], max_bytes: int
) -> dict[tuple[TopicPartition, int], ReplicaRead | Fault]:
    """Read replicas from offsets on; see ClusterClient."""
    from kafka.protocol.consumer import FetchRequest

    topic_type = FetchRequest.FetchTopic

    def request(offsets: Mapping[TopicPartition, int]) -> Any:
        return FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes * len(offsets),
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            forgotten_topics_data=[],
            rack_id="",
            topics=[
                topic_type(
                    topic=topic,
                    partitions=[
                        topic_type.FetchPartition(
                            partition=p,
                            current_leader_epoch=-1,
                            fetch_offset=offsets[TopicPartition(topic, p)],
                            last_fetched_epoch=-1,
                            log_start_offset=-1,
                            partition_max_bytes=max_bytes,
                        )
                        for p in partitions
                    ],
                )
                for topic, partitions in _by_topic(offsets).items()
            ],
            min_version=_FOLLOWERS_ANSWER,
            max_version=_LAST_WITH_NAMES,
        )

    return _answers(
        wire,
        asked,
        {broker: request(offsets) for broker, offsets in asked.items()},
        lambda answer: (
            (TopicPartition(topic.topic, p.partition_index), p.error_code, p)
            for topic in answer.responses
            for p in topic.partitions
        ),
        lambda p: ReplicaRead(int(p.high_watermark), bytes(p.records or b"")),
    )


def _answers(
    wire: Wire,
    asked: Mapping[int, Collection[TopicPartition]],
    requests: Mapping[int, Any],
    rows: Callable[[Any], Iterable[tuple[TopicPartition, int, Any]]],
    value: Callable[[Any], _V],
) -> dict[tuple[TopicPartition, int], _V | Fault]:
    """Return each replica's value or fault, also of brokers that answer nothing or in part."""
    found: dict[tuple[TopicPartition, int], _V | Fault] = {}
    for broker, answer in wire.each(requests, _SECONDS).items():
        silent = Fault("UNKNOWN_SERVER_ERROR", "the broker left it out of its answer")
        if isinstance(answer, Exception):
            silent = _silence(answer)
        elif getattr(answer, "error_code", 0):
            silent = fault(answer.error_code) or silent
        else:
            for tp, code, row in rows(answer):
                found[tp, broker] = fault(code) or value(row)
        for tp in asked[broker]:
            found.setdefault((tp, broker), silent)
    return found


def _silence(error: Exception) -> Fault:
    from kafka.errors import IncompatibleBrokerVersion

    if isinstance(error, IncompatibleBrokerVersion):
        return Fault("UNSUPPORTED_VERSION", "Kafka 2.4 and later let followers be read")
    return Fault("BROKER_NOT_AVAILABLE", str(error) or type(error).__name__)


def _by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partitions by topic, both in the order in which they are first named."""
    found: dict[str, list[int]] = defaultdict(list)
    for tp in tps:
        found[tp.topic].append(tp.partition)
    return found
