"""First and last offsets of partitions and of single replicas, and replicas' records.

A consumer may fetch from a follower since KIP-392 (Fetch 11, Kafka 2.4), and is given what lies
below that replica's own high watermark. Where a replica's log begins and ends is asked as Kafka's
own debugging replica does (-2): any other is sent to the leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from core.cluster.client import OffsetAt, ReplicaRecords
from core.cluster.kafka.wire import LEFT_OUT, Wire, fault_from_code
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition

NOT_LEADER_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "BROKER_NOT_AVAILABLE",
)
"""What comes of asking who led a partition once, or as of an election that is past."""


def fetch_offsets(
    wire: Wire, partitions: Collection[TopicPartition], at: OffsetAt
) -> dict[TopicPartition, int]:
    """Return the offsets of those whose leaders answer; see ClusterClient.

    Who led a partition is remembered until that broker denies it, or does not answer.
    """
    answers = _fetch_from_leaders(wire, partitions, at)
    denied = {
        tp: wire.leaders.pop(tp, None)
        for tp, answer in answers.items()
        if isinstance(answer, Fault) and answer.name in NOT_LEADER_ERRORS and tp in wire.leaders
    }
    if denied:
        answers |= _fetch_leaders(wire, denied)
        moved = [tp for tp, leader in denied.items() if wire.leaders.get(tp, leader) != leader]
        answers |= _fetch_from_leaders(wire, moved, at)
    wire.raise_if_all_failed(answers.values(), "DESCRIBE")
    return {tp: answer for tp, answer in answers.items() if not isinstance(answer, Fault)}


def _fetch_from_leaders(
    wire: Wire, partitions: Collection[TopicPartition], at: OffsetAt
) -> dict[TopicPartition, int | Fault]:
    faults: dict[TopicPartition, int | Fault] = dict(_fetch_leaders(wire, partitions))
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        if (leader := wire.leaders.get(tp)) is not None:
            by_leader[leader].append(tp)
    requests = {b: _offsets_request(tps, at, _CONSUMER) for b, tps in by_leader.items()}
    answers = _fetch_from_brokers(
        wire, by_leader, requests, _offset_rows, _parse_offset, seconds=_LEADER_SECONDS
    )
    return faults | {tp: answer for (tp, _), answer in answers.items()}


def _fetch_leaders(wire: Wire, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Fault]:
    """Have `wire.leaders` name who leads each of these; return why it does not name the others."""
    from kafka.protocol.metadata import MetadataRequest

    unknown = [tp for tp in partitions if tp not in wire.leaders]
    if not unknown:
        return {}
    names = dict.fromkeys(tp.topic for tp in unknown)
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    faults: dict[str, Fault] = {}
    for topic in wire.send_to_any(request, wire.metadata_timeout).topics:
        if (fault := fault_from_code(topic.error_code)) is not None:
            faults[topic.name] = fault
        for p in topic.partitions:
            if p.leader_id >= 0:
                wire.leaders[TopicPartition(topic.name, p.partition_index)] = p.leader_id
    return {tp: faults.get(tp.topic, _LEADERLESS) for tp in unknown if tp not in wire.leaders}


_DEBUGGING = -2
_CONSUMER = -1
_TIMES = {OffsetAt.EARLIEST: -2, OffsetAt.LATEST: -1}
_FOLLOWERS_ANSWER, _LAST_WITH_NAMES = 11, 12
_SECONDS, _LEADER_SECONDS = 30.0, 6.0
_LEADERLESS = Fault("LEADER_NOT_AVAILABLE")

_V = TypeVar("_V")


def fetch_replica_offsets(
    wire: Wire, offsets_of: Mapping[int, Collection[TopicPartition]], at: OffsetAt
) -> dict[tuple[TopicPartition, int], int | Fault]:
    """Return where replicas' logs begin or end; see ClusterClient."""
    requests = {broker: _offsets_request(tps, at, _DEBUGGING) for broker, tps in offsets_of.items()}
    return _fetch_from_brokers(wire, offsets_of, requests, _offset_rows, _parse_offset)


def _offsets_request(tps: Collection[TopicPartition], at: OffsetAt, replica: int) -> Any:
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_type = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=replica,
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
            for topic, partitions in _group_by_topic(tps).items()
        ],
    )


def _offset_rows(answer: Any) -> Iterator[tuple[TopicPartition, int, Any]]:
    for topic in answer.topics:
        for p in topic.partitions:
            yield TopicPartition(topic.name, p.partition_index), p.error_code, p


def _parse_offset(partition: Any) -> int:
    return int(partition.offset)


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
                for topic, partitions in _group_by_topic(offsets).items()
            ],
            min_version=_FOLLOWERS_ANSWER,
            max_version=_LAST_WITH_NAMES,
        )

    return _fetch_from_brokers(
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


def _fetch_from_brokers(
    wire: Wire,
    offsets_of: Mapping[int, Collection[TopicPartition]],
    requests: Mapping[int, Any],
    rows: Callable[[Any], Iterable[tuple[TopicPartition, int, Any]]],
    value: Callable[[Any], _V],
    seconds: float = _SECONDS,
) -> dict[tuple[TopicPartition, int], _V | Fault]:
    """Return each replica's value or fault, also of brokers that answer nothing or in part."""
    values: dict[tuple[TopicPartition, int], _V | Fault] = {}
    for broker, answer in wire.ask_each(requests, seconds).items():
        silent = LEFT_OUT
        if isinstance(answer, Exception):
            silent = _fault_from_error(answer)
        elif getattr(answer, "error_code", 0):
            silent = fault_from_code(answer.error_code) or silent
        else:
            for tp, code, row in rows(answer):
                values[tp, broker] = fault_from_code(code) or value(row)
        for tp in offsets_of[broker]:
            values.setdefault((tp, broker), silent)
    return values


def _fault_from_error(error: Exception) -> Fault:
    from kafka.errors import IncompatibleBrokerVersion

    if isinstance(error, IncompatibleBrokerVersion):
        return Fault("UNSUPPORTED_VERSION", "Kafka 2.4 and later let followers be read")
    return Fault("BROKER_NOT_AVAILABLE", str(error) or type(error).__name__)


def _group_by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partitions by topic, both in the order in which they are first named."""
    partitions: dict[str, list[int]] = defaultdict(list)
    for tp in tps:
        partitions[tp.topic].append(tp.partition)
    return partitions
