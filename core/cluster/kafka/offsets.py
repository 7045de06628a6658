"""First and last offsets of partitions and of single replicas, and replicas' records.

A consumer may fetch from a follower since KIP-392 (Fetch 11, Kafka 2.4), and is given what lies
below that replica's own high watermark. Where a replica's log begins and ends is asked as Kafka's
own debugging replica does (-2): any other is sent to the leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from core.cluster.client import OffsetAt, ReplicaRecords
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.wire import Wire, fault_from_code
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition

NOT_LEADER_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
)
"""What comes of asking who led a partition once, or as of an election that is past."""


def fetch_offsets(
    admin: Admin, partitions: Collection[TopicPartition], at: OffsetAt
) -> dict[TopicPartition, int]:
    """Return the offsets of those whose leaders answer; see ClusterClient."""
    from confluent_kafka import TopicPartition as TheirPartition
    from confluent_kafka.admin import OffsetSpec

    if not partitions:
        return {}
    spec = OffsetSpec.earliest() if at is OffsetAt.EARLIEST else OffsetSpec.latest()

    def ask(some: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        specs = {TheirPartition(tp.topic, tp.partition): spec for tp in some}
        answers = admin.ask(lambda of: of.list_offsets(specs, request_timeout=admin.seconds))
        return {TopicPartition(tp.topic, tp.partition): answer for tp, answer in answers.items()}

    answers = ask(partitions)
    elsewhere = [
        tp for tp, a in answers.items() if isinstance(a, Fault) and a.name in NOT_LEADER_ERRORS
    ]
    if elsewhere and admin.reopen_for_leaders():
        answers |= ask(elsewhere)
    admin.raise_if_all_failed(answers.values(), "DESCRIBE")
    return {tp: a.offset for tp, a in answers.items() if not isinstance(a, Fault)}


_DEBUGGING = -2
_CONSUMER = -1
_TIMES = {OffsetAt.EARLIEST: -2, OffsetAt.LATEST: -1}
_FOLLOWERS_ANSWER, _LAST_WITH_NAMES = 11, 12
_SECONDS = 30.0

_V = TypeVar("_V")


def fetch_replica_offsets(
    wire: Wire, offsets_of: Mapping[int, Collection[TopicPartition]], at: OffsetAt
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

    return _fetch_from_each(
        wire,
        offsets_of,
        {broker: request(tps) for broker, tps in offsets_of.items()},
        lambda answer: (
            (TopicPartition(topic.name, p.partition_index), p.error_code, p)
            for topic in answer.topics
            for p in topic.partitions
        ),
        lambda p: int(p.offset),
    )


def fetch_records(
    wire: Wire, offsets_of: Mapping[int, Mapping[TopicPartition, int]], max_bytes: int
) -> dict[tuple[TopicPartition, int], ReplicaRecords | Fault]:
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

    return _fetch_from_each(
        wire,
        offsets_of,
        {broker: request(offsets) for broker, offsets in offsets_of.items()},
        lambda answer: (
            (TopicPartition(topic.topic, p.partition_index), p.error_code, p)
            for topic in answer.responses
            for p in topic.partitions
        ),
        lambda p: ReplicaRecords(int(p.high_watermark), bytes(p.records or b"")),
    )


def _fetch_from_each(
    wire: Wire,
    offsets_of: Mapping[int, Collection[TopicPartition]],
    requests: Mapping[int, Any],
    rows: Callable[[Any], Iterable[tuple[TopicPartition, int, Any]]],
    value: Callable[[Any], _V],
) -> dict[tuple[TopicPartition, int], _V | Fault]:
    """Return each replica's value or fault, also of brokers that answer nothing or in part."""
    found: dict[tuple[TopicPartition, int], _V | Fault] = {}
    for broker, answer in wire.ask_each(requests, _SECONDS).items():
        silent = Fault("UNKNOWN_SERVER_ERROR", "the broker left it out of its answer")
        if isinstance(answer, Exception):
            silent = _no_answer(answer)
        elif getattr(answer, "error_code", 0):
            silent = fault_from_code(answer.error_code) or silent
        else:
            for tp, code, row in rows(answer):
                found[tp, broker] = fault_from_code(code) or value(row)
        for tp in offsets_of[broker]:
            found.setdefault((tp, broker), silent)
    return found


def _no_answer(error: Exception) -> Fault:
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
