"""Log dirs on the wire: what brokers keep where, and moves between a broker's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from core.cluster.kafka.wire import Wire, fault_from_code, fault_from_silence
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs, ReplicaLog
from core.cluster.metadata import LogDir, TopicPartition


def describe_log_dirs(wire: Wire, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
    """Ask these brokers side by side; one that does not answer has `error` set."""
    from kafka.protocol.admin import DescribeLogDirsRequest

    answers = wire.ask_each({b: DescribeLogDirsRequest(topics=None) for b in brokers})
    return tuple(_parse_broker_logs(broker, answers[broker]) for broker in sorted(answers))


def alter_log_dirs(
    wire: Wire, moves: Mapping[tuple[TopicPartition, int], str]
) -> dict[tuple[TopicPartition, int], Fault | None]:
    from kafka.protocol.admin import AlterReplicaLogDirsRequest

    dir_type = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic_type = dir_type.AlterReplicaLogDirTopic
    by_broker: dict[int, dict[str, dict[str, list[int]]]] = {}
    for (tp, broker), path in moves.items():
        topics = by_broker.setdefault(broker, {}).setdefault(path, {})
        topics.setdefault(tp.topic, []).append(tp.partition)
    requests = {
        broker: AlterReplicaLogDirsRequest(
            dirs=[
                dir_type(
                    path=path,
                    topics=[topic_type(name=n, partitions=p) for n, p in topics.items()],
                )
                for path, topics in dirs.items()
            ]
        )
        for broker, dirs in by_broker.items()
    }
    results: dict[tuple[TopicPartition, int], Fault | None] = {}
    for broker, answer in wire.ask_each(requests).items():
        if isinstance(answer, Exception):
            for tp, at in moves:
                if at == broker:
                    results[tp, at] = fault_from_silence(answer)
            continue
        for topic in answer.results:
            for partition in topic.partitions:
                tp = TopicPartition(topic.topic_name, partition.partition_index)
                results[tp, broker] = fault_from_code(partition.error_code)
    return results


def _parse_broker_logs(broker: int, answer: Any) -> BrokerLogs:
    if isinstance(answer, Exception):
        return BrokerLogs(broker, error=str(answer) or type(answer).__name__)
    failure = fault_from_code(answer.error_code or 0)
    if failure is None and not answer.results:
        # Before version 3 of this answer, a user without the right to look got an empty list.
        failure = Fault("CLUSTER_AUTHORIZATION_FAILED", "no log dirs were told")
    if failure is not None:
        return BrokerLogs(broker, error=str(failure))
    return BrokerLogs(
        broker,
        tuple(_parse_log_dir(result) for result in answer.results),
        tuple(
            ReplicaLog(
                topic.name,
                partition.partition_index,
                partition.partition_size,
                partition.offset_lag,
                result.log_dir,
                future=partition.is_future_key,
            )
            for result in answer.results
            if result.error_code == 0
            for topic in result.topics
            for partition in topic.partitions
        ),
    )


def _parse_log_dir(result: Any) -> LogDir:
    def known(value: int | None) -> int | None:
        return value if value is not None and value >= 0 else None

    failure = fault_from_code(result.error_code)
    return LogDir(
        result.log_dir,
        known(result.total_bytes),
        known(result.usable_bytes),
        None if failure is None else failure.name,
    )
