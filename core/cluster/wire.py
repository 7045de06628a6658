"""The calls that librdkafka lacks, on kafka-python: metadata whole, reassignments, log dirs.

Requests are sent through kafka-python's connection manager instead of its admin methods, which
drop what must not be lost: the error of a whole answer, messages, leader epochs, deadlines.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from core.cluster.client import Fault
from core.cluster.connection import CONNECT_SECONDS, ConnectionSettings
from core.cluster.reach import denied, unreachable
from core.cluster.state import BrokerLogs, LogDir, Reassignment, ReplicaLog, TopicPartition

_READ_SECONDS = 5.0
_BROKER_SECONDS = 4.0
_CONTROLLER_SECONDS = 15.0
_RETRY_SECONDS = 0.1
_NOT_CONTROLLER = 41
# Where kafka-python's names are not Kafka's own.
_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Picture:
    """The answers to Metadata and DescribeCluster, what is in flight, and who leads.

    `controller` is the leader of the KRaft quorum, who need not be a broker; KRaft brokers name
    any one of themselves in their metadata.
    """

    metadata: Any
    cluster: Any
    reassignments: dict[TopicPartition, Reassignment]
    controller: int | None


class Wire:
    """kafka-python's connections to one cluster, opened at the first call."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._admin: Any = None
        self._controller: int | None = None

    def close(self) -> None:
        with self._opening:
            if self._admin is not None:
                self._admin.close()

    # -- calls -----------------------------------------------------------------------------------

    def picture(self) -> Picture:
        """Return everything that a description is made of, one request each, sent together."""
        from kafka.protocol.admin import DescribeClusterRequest
        from kafka.protocol.metadata import MetadataRequest

        async def ask(manager: Any, node: int) -> tuple[Any, Any, Any, Any]:
            metadata = manager.send(
                MetadataRequest(
                    topics=None,
                    allow_auto_topic_creation=False,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                ),
                node_id=node,
            )
            cluster = manager.send(
                DescribeClusterRequest(include_fenced_brokers=True), node_id=node
            )
            moves = manager.send(_list_request(), node_id=self._controller_or(node))
            quorum = manager.send(_quorum_request(), node_id=node)
            return await metadata, await cluster, await moves, await _optional(quorum)

        metadata, cluster, moves, quorum = self._read(ask)
        _refuse(cluster, "describe the cluster")
        self._controller = metadata.controller_id
        return Picture(
            metadata,
            cluster,
            self.reassignments() if moves.error_code == _NOT_CONTROLLER else _reassignments(moves),
            metadata.controller_id if quorum is None else _quorum_leader(quorum),
        )

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        return _reassignments(self._controlled(_list_request()))

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
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
        answer = self._controlled(
            AlterPartitionReassignmentsRequest(
                timeout_ms=int(_CONTROLLER_SECONDS * 1000),
                topics=[topic_type(name=name, partitions=p) for name, p in by_topic.items()],
            )
        )
        _refuse(answer, "alter partition reassignments")
        return {
            TopicPartition(topic.name, partition.partition_index): fault(
                partition.error_code, partition.error_message
            )
            for topic in answer.responses
            for partition in topic.partitions
        }

    def log_dirs(self, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
        """Ask these brokers side by side; one that does not answer has `error` set."""
        from kafka.protocol.admin import DescribeLogDirsRequest

        answers = self._each({b: DescribeLogDirsRequest(topics=None) for b in brokers})
        return tuple(_broker_logs(broker, answers[broker]) for broker in sorted(answers))

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        from kafka.protocol.admin import AlterReplicaLogDirsRequest

        dir_type = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        topic_type = dir_type.AlterReplicaLogDirTopic
        wanted: dict[int, dict[str, dict[str, list[int]]]] = {}
        for (tp, broker), path in moves.items():
            topics = wanted.setdefault(broker, {}).setdefault(path, {})
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
            for broker, dirs in wanted.items()
        }
        results: dict[tuple[TopicPartition, int], Fault | None] = {}
        for broker, answer in self._each(requests).items():
            if isinstance(answer, Exception):
                for tp, at in moves:
                    if at == broker:
                        results[tp, at] = Fault("BROKER_NOT_AVAILABLE", str(answer))
                continue
            for topic in answer.results:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.topic_name, partition.partition_index)
                    results[tp, broker] = fault(partition.error_code)
        return results

    # -- sending ---------------------------------------------------------------------------------

    def _manager(self) -> Any:
        with self._opening:
            if self._admin is None:
                self._admin = _open(self._settings)
            return self._admin._manager

    def _controller_or(self, node: int) -> int:
        return node if self._controller is None else self._controller

    def _read(self, ask: Callable[[Any, int], Any]) -> Any:
        """Return what `ask` awaits, from any broker, trying others while there is time."""
        from kafka.errors import KafkaError, NodeNotReadyError

        manager = self._manager()
        deadline = time.monotonic() + _READ_SECONDS

        async def attempt() -> Any:
            node = manager.least_loaded_node()
            if node is None:
                raise NodeNotReadyError("every broker refuses connections")
            return await ask(manager, node)

        while True:
            try:
                return manager.run(attempt)
            except KafkaError as error:
                self._controller = None
                if not getattr(error, "retriable", False) or time.monotonic() > deadline:
                    raise _explained(error, self._settings) from error
                time.sleep(_RETRY_SECONDS)

    def _controlled(self, request: Any) -> Any:
        """Return the controller's answer, following it while it moves.

        KRaft brokers pass such requests on and name any one of themselves as the controller.
        """
        from kafka.protocol.metadata import MetadataRequest

        deadline = time.monotonic() + _CONTROLLER_SECONDS

        async def ask(manager: Any, node: int) -> Any:
            if self._controller is None:
                metadata = await manager.send(MetadataRequest(topics=[]), node_id=node)
                self._controller = metadata.controller_id
            return await manager.send(request, node_id=self._controller_or(node))

        while True:
            answer = self._read(ask)
            if answer.error_code != _NOT_CONTROLLER or time.monotonic() > deadline:
                return answer
            self._controller = None
            time.sleep(_RETRY_SECONDS)

    def _each(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Return each broker's answer, or the exception that came instead of it."""
        from kafka.errors import KafkaError, UnknownBrokerIdError

        manager = self._manager()
        milliseconds = _BROKER_SECONDS * 1000

        async def ask(broker: int, request: Any) -> Any:
            try:
                return await manager.send(request, node_id=broker, request_timeout_ms=milliseconds)
            except UnknownBrokerIdError:
                # It may have joined since kafka-python last looked.
                await manager.cluster.refresh_metadata()
            return await manager.send(request, node_id=broker, request_timeout_ms=milliseconds)

        def call(broker: int, request: Any) -> Any:
            try:
                return manager.run(ask, broker, request)
            except KafkaError as error:
                return error

        return side_by_side({b: partial(call, b, r) for b, r in requests.items()})


def side_by_side(calls: Mapping[_K, Callable[[], _V]]) -> dict[_K, _V]:
    """Return every call's answer; all run at once, each in a thread of its own."""
    answers: dict[_K, _V] = {}

    def run(key: _K, call: Callable[[], _V]) -> None:
        answers[key] = call()

    threads = [
        threading.Thread(target=run, args=(key, call), daemon=True) for key, call in calls.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def fault(code: int, message: str | None = None) -> Fault | None:
    """Return Kafka's error by its own name; None for no error."""
    if code == 0:
        return None
    from kafka.errors import for_code

    name = _NAMES.get(code) or getattr(for_code(code), "message", None) or f"ERROR_{code}"
    return Fault(name, message or "")


def _open(settings: ConnectionSettings) -> Any:
    import logging

    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    library = logging.getLogger("kafka")
    library.addHandler(logging.NullHandler())
    library.propagate = False
    try:
        return KafkaAdminClient(
            **settings.kafka_python(),
            bootstrap_timeout_ms=int(CONNECT_SECONDS * 1000),
            request_timeout_ms=int(_CONTROLLER_SECONDS * 1000),
            reconnect_backoff_max_ms=1000,
            metadata_max_age_ms=10_000,
        )
    except KafkaError as error:
        raise _explained(error, settings) from error


def _explained(error: Exception, settings: ConnectionSettings) -> Exception:
    from kafka.errors import AuthorizationError, SaslAuthenticationFailedError

    match error:
        case SaslAuthenticationFailedError():
            return denied("The cluster refuses this user name or password.")
        case AuthorizationError():
            return denied(f"The cluster says no: {type(error).message}.")
    return unreachable(settings, str(error))


def _refuse(answer: Any, doing: str) -> None:
    """Raise what a whole answer's error means; an answer without one is good."""
    failure = fault(answer.error_code, getattr(answer, "error_message", None))
    if failure is None:
        return
    if "AUTHORIZATION" in failure.name:
        raise denied(f"This user may not {doing}.")
    raise unreachable(None, f"The cluster could not {doing}: {failure}.")


def _list_request() -> Any:
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    return ListPartitionReassignmentsRequest(
        timeout_ms=int(_CONTROLLER_SECONDS * 1000), topics=None
    )


def _quorum_request() -> Any:
    from kafka.protocol.admin import DescribeQuorumRequest

    topic_type = DescribeQuorumRequest.TopicData
    partition = topic_type.PartitionData(partition_index=0)
    return DescribeQuorumRequest(
        topics=[topic_type(topic_name="__cluster_metadata", partitions=[partition])]
    )


async def _optional(answer: Any) -> Any:
    """Return an answer; None when these brokers do not know the request (no KRaft)."""
    from kafka.errors import UnsupportedVersionError

    try:
        return await answer
    except UnsupportedVersionError:
        return None


def _quorum_leader(answer: Any) -> int | None:
    leaders = [p.leader_id for topic in answer.topics for p in topic.partitions]
    return leaders[0] if leaders and leaders[0] >= 0 else None


def _reassignments(answer: Any) -> dict[TopicPartition, Reassignment]:
    _refuse(answer, "list partition reassignments")
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def _broker_logs(broker: int, answer: Any) -> BrokerLogs:
    if isinstance(answer, Exception):
        return BrokerLogs(broker, error=str(answer) or type(answer).__name__)
    failure = fault(answer.error_code or 0)
    if failure is None and not answer.results:
        # Before version 3 of this answer, a user without the right to look got an empty list.
        failure = Fault("CLUSTER_AUTHORIZATION_FAILED", "no log dirs were told")
    if failure is not None:
        return BrokerLogs(broker, error=str(failure))
    return BrokerLogs(
        broker,
        tuple(_log_dir(result) for result in answer.results),
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


def _log_dir(result: Any) -> LogDir:
    def known(value: int | None) -> int | None:
        return value if value is not None and value >= 0 else None

    failure = fault(result.error_code)
    return LogDir(
        result.log_dir,
        known(result.total_bytes),
        known(result.usable_bytes),
        None if failure is None else failure.name,
    )
