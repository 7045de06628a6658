"""KafkaClient: real brokers behind ClusterClient.

confluent-kafka does what a run alters of configs, offsets, and describes consumer groups;
kafka-python does all else. That includes `describe_cluster`: librdkafka's metadata has neither
topic ids nor leader epochs nor fenced brokers, and asking it for topic ids takes four times as long
as reading all of it here.
Elections are kafka-python's, too: librdkafka waits for the controller that it once heard of.
Each library is loaded at its first call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from core.cluster.client import ClusterClient, OffsetAt
from core.cluster.configs import ConfigChange, ConfigValue, Resource, ResourceKind
from core.cluster.groups import ActiveGroups, Group
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.configs import (
    CLUSTER_WIDE,
    alter_cluster_defaults,
    alter_configs,
    describe_configs,
    describe_topic_configs,
    fetch_list_entries,
    only_brokers,
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
from core.cluster.state import ClusterState
from core.errors import TrimtabError

P = ParamSpec("P")
T = TypeVar("T")


def _by_wire(call: Callable[Concatenate[Wire, P], T]) -> Callable[Concatenate[KafkaClient, P], T]:
    """Return a KafkaClient's method that kafka-python does."""

    def method(self: KafkaClient, /, *args: P.args, **options: P.kwargs) -> T:
        return call(self._wire, *args, **options)

    return method


class KafkaClient:
    """One cluster of real brokers; see ClusterClient for what each call promises."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._wire = Wire(settings)
        self._admin = Admin(settings, self._wire)

    @property
    def last_answer_at(self) -> float:
        """Return when any broker has last answered anything (monotonic seconds)."""
        return max(self._wire.last_answer_at, self._admin.last_answer_at)

    def explain(self, detail: str) -> TrimtabError:
        """Return why the cluster does not answer, having looked; `detail` is all that is seen."""
        return unreachable(self._settings, detail, self._wire.failures())

    def silent_brokers(self) -> Mapping[int, str]:
        """Return the addresses of brokers that did not answer when they were last asked."""
        troubles = self._wire.failures(waiting=False)
        return {t.broker: t.address for t in troubles if t.broker is not None}

    ping = _by_wire(ping)
    describe_log_dirs = _by_wire(describe_log_dirs)
    fetch_denied_topics = _by_wire(fetch_denied_topics)
    fetch_reassignments = _by_wire(fetch_reassignments)
    alter_reassignments = _by_wire(alter_reassignments)
    alter_log_dirs = _by_wire(alter_log_dirs)
    elect_leaders = _by_wire(elect_leaders)
    create_topics = _by_wire(create_topics)
    add_partitions = _by_wire(add_partitions)
    delete_topics = _by_wire(delete_topics)
    fetch_replica_offsets = _by_wire(fetch_replica_offsets)
    fetch_records = _by_wire(fetch_records)

    def describe_cluster(self) -> ClusterState:
        state = describe_cluster(self._wire)
        self._admin.reopen_if_unknown(state.alive_ids)
        return state

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        return self.alter_reassignments(dict.fromkeys(partitions))

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        topics = [] if names is None else [r for r in resources if r.kind is ResourceKind.TOPIC]
        others = [r for r in resources if names is None or r.kind is not ResourceKind.TOPIC]
        answers = describe_topic_configs(self._admin, topics, names or ())
        answers |= describe_configs(self._wire, others, names)
        self._admin.raise_if_all_failed(
            answers.values(), "DESCRIBE_CONFIGS", of_brokers=only_brokers(answers)
        )
        return answers

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        answers = alter_configs(self._admin, [c for c in changes if c.resource != CLUSTER_WIDE])
        ours = [change for change in changes if change.resource == CLUSTER_WIDE]
        if ours:
            answers[CLUSTER_WIDE] = alter_cluster_defaults(self._wire, ours)
        return answers

    def fetch_list_entries(
        self, lists: Collection[tuple[Resource, str]]
    ) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
        return fetch_list_entries(self._admin, lists)

    def fetch_offsets(
        self, partitions: Collection[TopicPartition], at: OffsetAt
    ) -> dict[TopicPartition, int]:
        self._admin.reopen_if_unknown(self._wire.brokers)
        return fetch_offsets(self._admin, partitions, at)

    def describe_groups(
        self, matching: str | None = None, lost: Callable[[Fault], None] | None = None
    ) -> tuple[Group, ...]:
        self._admin.reopen_if_unknown(self._wire.brokers)
        return describe_groups(self._admin, self._wire, matching, lost or (lambda fault: None))

    def describe_active_groups(self, limit: int) -> ActiveGroups:
        self._admin.reopen_if_unknown(self._wire.brokers)
        return describe_active_groups(self._admin, self._wire, limit)

    def close(self) -> None:
        self._admin.close()
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
