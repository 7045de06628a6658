"""KafkaClient: real brokers behind ClusterClient.

kafka-python sends all requests. librdkafka, which reads and writes topics and produces and consumes
probes, does not: its metadata has neither topic ids nor leader epochs nor fenced brokers, it
remembers coordinators, leaders and controllers for minutes, and it connects to no other address
than the one that a broker advertises.
The library is loaded at the first call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigValue, Resource, ResourceKind
from core.cluster.groups import Group
from core.cluster.kafka.configs import (
    alter_configs,
    describe_configs,
    describe_topic_configs,
    fetch_list_entries,
)
from core.cluster.kafka.connection.diagnosis import unreachable
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.groups import describe_active_groups, describe_groups
from core.cluster.kafka.log_dirs import alter_log_dirs, describe_log_dirs
from core.cluster.kafka.metadata import describe_cluster, fetch_denied_topics, ping
from core.cluster.kafka.offsets import fetch_offsets, fetch_records, fetch_replica_offsets
from core.cluster.kafka.topics import (
    add_partitions,
    alter_reassignments,
    create_topics,
    delete_topics,
    elect_leaders,
    fetch_reassignments,
)
from core.cluster.kafka.wire import Wire
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.errors import TrimtabError

P = ParamSpec("P")
T = TypeVar("T")


def _wire_call(call: Callable[Concatenate[Wire, P], T]) -> Callable[Concatenate[KafkaClient, P], T]:
    """Return a KafkaClient's method that kafka-python does."""

    def method(self: KafkaClient, /, *args: P.args, **options: P.kwargs) -> T:
        return call(self._wire, *args, **options)

    return method


class KafkaClient:
    """One cluster of real brokers; see ClusterClient for what each call promises."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._wire = Wire(settings)

    @property
    def last_answer_at(self) -> float:
        """Return when any broker has last answered anything (monotonic seconds)."""
        return self._wire.last_answer_at

    def explain(self, detail: str) -> TrimtabError:
        """Return why the cluster does not answer, having looked; `detail` is all that is seen."""
        return unreachable(self._settings, detail, self._wire.failures())

    def silent_brokers(self) -> Mapping[int, str]:
        """Return the addresses of brokers that did not answer when they were last asked."""
        troubles = self._wire.failures(waiting=False)
        return {t.broker: t.address for t in troubles if t.broker is not None}

    ping = _wire_call(ping)
    describe_cluster = _wire_call(describe_cluster)
    describe_log_dirs = _wire_call(describe_log_dirs)
    fetch_denied_topics = _wire_call(fetch_denied_topics)
    fetch_reassignments = _wire_call(fetch_reassignments)
    alter_reassignments = _wire_call(alter_reassignments)
    alter_log_dirs = _wire_call(alter_log_dirs)
    elect_leaders = _wire_call(elect_leaders)
    create_topics = _wire_call(create_topics)
    add_partitions = _wire_call(add_partitions)
    delete_topics = _wire_call(delete_topics)
    alter_configs = _wire_call(alter_configs)
    fetch_list_entries = _wire_call(fetch_list_entries)
    fetch_offsets = _wire_call(fetch_offsets)
    fetch_replica_offsets = _wire_call(fetch_replica_offsets)
    fetch_records = _wire_call(fetch_records)
    describe_active_groups = _wire_call(describe_active_groups)

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        return self.alter_reassignments(dict.fromkeys(partitions))

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        topics = [] if names is None else [r for r in resources if r.kind is ResourceKind.TOPIC]
        others = [r for r in resources if names is None or r.kind is not ResourceKind.TOPIC]
        answers = describe_topic_configs(self._wire, topics, names or ())
        answers |= describe_configs(self._wire, others, names)
        self._wire.raise_if_all_failed(answers.values(), "DESCRIBE_CONFIGS")
        return answers

    def describe_groups(
        self, matching: str | None = None, lost: Callable[[Fault], None] | None = None
    ) -> tuple[Group, ...]:
        return describe_groups(self._wire, matching, lost or (lambda fault: None))

    def close(self) -> None:
        self._wire.close()


def with_deadline(client: KafkaClient, seconds: float) -> ClusterClient:
    """Return `client` whose calls raise UnreachableError after so long without any answer.

    As long as answers come, a call may last. One that is given up goes on in a thread that ends
    nothing and holds up nothing.
    """
    return cast("ClusterClient", _ClientWithDeadline(client, seconds))


class _ClientWithDeadline:
    def __init__(self, client: KafkaClient, seconds: float) -> None:
        self._client, self._seconds = client, seconds

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            return self._within(lambda: method(*args, **options))

        return call

    def _within(self, call: Callable[[], Any]) -> Any:
        began = time.monotonic()
        ended = threading.Event()
        answer: list[Any] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                answer.append(call())
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
                errors.append(error)
            ended.set()

        threading.Thread(target=run, name="kafka-call", daemon=True).start()
        while not ended.wait(max(0.0, self._left(began))):
            if self._left(began) <= 0:
                raise self._client.explain(f"no answer has come for {self._seconds:g} s")
        if errors:
            try:
                raise errors.pop()
            finally:
                del errors  # else the error holds this frame, and this frame the error
        return answer.pop()

    def _left(self, began: float) -> float:
        return max(began, self._client.last_answer_at) + self._seconds - time.monotonic()
