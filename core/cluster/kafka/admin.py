"""The calls on confluent-kafka: configs of topics, configs altered, offsets and consumer groups."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from core.cluster.client import (
    ActiveGroups,
    ConfigChange,
    ConfigOp,
    ConfigValue,
    Fault,
    Group,
    OffsetAt,
    Resource,
    ResourceKind,
)
from core.cluster.kafka.configs import source
from core.cluster.kafka.connection import CONNECT_SECONDS, ConnectionSettings
from core.cluster.kafka.group_answers import group_of, is_elsewhere
from core.cluster.kafka.reach import denied, unreachable
from core.cluster.kafka.wire import fault
from core.cluster.state import TopicPartition
from core.patterns import is_whole

CommittedBy: TypeAlias = Callable[
    [Mapping[str, int]], Mapping[str, Mapping[TopicPartition, int] | Fault]
]
_UNCOORDINATED = Fault("COORDINATOR_NOT_AVAILABLE", "no broker coordinates it")
_SECONDS = 10.0
# A broker that is down is waited for, so this is also what a dead one costs.
_BROKER_SECONDS = 4.0
_WATCH_SECONDS = 3.0
_ANYBODY_SECONDS = 3.0


def quiet_admin(settings: ConnectionSettings) -> Any:
    """Return a confluent-kafka AdminClient that is quick to connect again and never prints."""
    from confluent_kafka.admin import AdminClient

    config = settings.confluent()
    logger = config.pop("logger")
    return AdminClient(
        {
            **config,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": -1,
            # Connecting only when needed, librdkafka spins for as long as a request waits for a
            # broker that is down: most of a processor, in every run that asks it for its configs.
            "enable.sparse.connections": False,
        },
        logger=logger,
    )


class Admin:
    """confluent-kafka's admin client for one cluster, opened at the first call."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._opened: Any = None

    def close(self) -> None:
        with self._opening:
            self._opened = None

    def topic_configs(
        self, topics: Collection[Resource], names: Collection[str]
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        """Return these configs of topics, as the broker knows them that takes their changes, too.

        Another one may know less of what was changed last, and who puts lists back must not take
        what it sees there for what somebody set.
        """
        if not topics:
            return {}
        from confluent_kafka.admin import ConfigResource

        asked = {ConfigResource(_kind(r), r.name): r for r in topics}
        futures = self._client().describe_configs(list(asked), request_timeout=_SECONDS)
        answers: dict[Resource, dict[str, ConfigValue] | Fault] = {}
        for resource, future in futures.items():
            entries = self._settle(future)
            answers[asked[resource]] = (
                entries
                if isinstance(entries, Fault)
                else {
                    name: ConfigValue(entry.value, source(entry.source))
                    for name, entry in entries.items()
                    if name in names
                }
            )
        self._forget_if_in_vain(answers.values())
        return answers

    def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> dict[Resource, Fault | None]:
        answers: dict[Resource, Fault | None] = {}
        for changes_once in _rounds(changes):
            left = [change for change in changes_once if answers.get(change.resource) is None]
            answers |= self._alter(left, validate_only)
        self.raise_if_nothing(answers.values())
        return answers

    def _alter(
        self, changes: Sequence[ConfigChange], validate_only: bool
    ) -> dict[Resource, Fault | None]:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        operations = {op: AlterConfigOpType[op.name] for op in ConfigOp}
        by_resource: dict[Resource, list[Any]] = defaultdict(list)
        for change in changes:
            by_resource[change.resource].append(
                ConfigEntry(
                    change.name,
                    None if change.op is ConfigOp.DELETE else change.value,
                    incremental_operation=operations[change.op],
                )
            )
        admin = self._client()
        pending: dict[Resource, Any] = {}
        for group in _requests(by_resource):
            asked = {
                ConfigResource(_kind(r), r.name, incremental_configs=by_resource[r]): r
                for r in group
            }
            futures = admin.incremental_alter_configs(
                list(asked), request_timeout=_seconds(group), validate_only=validate_only
            )
            pending |= {asked[resource]: future for resource, future in futures.items()}
        answers = {
            resource: answer if isinstance(answer := self._settle(future), Fault) else None
            for resource, future in pending.items()
        }
        self._forget_if_in_vain(answers.values())
        return answers

    def offsets(
        self, partitions: Collection[TopicPartition], at: OffsetAt
    ) -> dict[TopicPartition, int]:
        from confluent_kafka import TopicPartition as TheirPartition
        from confluent_kafka.admin import OffsetSpec

        if not partitions:
            return {}
        spec = OffsetSpec.earliest() if at is OffsetAt.EARLIEST else OffsetSpec.latest()
        futures = self._client().list_offsets(
            {TheirPartition(tp.topic, tp.partition): spec for tp in partitions},
            request_timeout=_SECONDS,
        )
        answers = {
            TopicPartition(tp.topic, tp.partition): self._settle(future)
            for tp, future in futures.items()
        }
        self._forget_if_in_vain(answers.values())
        self.raise_if_nothing(answers.values())
        return {tp: a.offset for tp, a in answers.items() if not isinstance(a, Fault)}

    def groups(
        self,
        matching: str | None,
        committed: CommittedBy,
        lost: Callable[[Fault], None] | None = None,
    ) -> tuple[Group, ...]:
        """Return groups; `committed` tells their offsets, given which broker coordinates which."""
        from confluent_kafka import KafkaException

        admin = self._client()
        try:
            listed = admin.list_consumer_groups(request_timeout=_SECONDS).result()
        except KafkaException as error:
            raise self._explained(error) from error
        self._forget_if_in_vain(map(_fault, listed.errors))
        if listed.errors and not listed.valid:
            raise self._explained(listed.errors[0])
        if lost is not None:
            for failure in listed.errors:
                lost(_fault(failure))
        ids = [group.group_id for group in listed.valid if is_whole(matching, group.group_id)]
        if not ids:
            return ()
        described = self._described(ids, _SECONDS)
        offsets = committed(
            {
                id: told.coordinator.id
                for id, told in described.items()
                if not isinstance(told, Fault) and told.coordinator is not None
            }
        )
        groups = (
            group_of(id, described[id], offsets.get(id, _UNCOORDINATED)) for id in sorted(ids)
        )
        return tuple(group for group in groups if group is not None)

    def active_groups(self, most: int) -> ActiveGroups:
        from confluent_kafka import KafkaException

        admin = self._client()
        try:
            listed = admin.list_consumer_groups(request_timeout=_WATCH_SECONDS).result()
        except KafkaException as error:
            raise self._explained(error) from error
        self._forget_if_in_vain(map(_fault, listed.errors))
        if listed.errors and not listed.valid:
            raise self._explained(listed.errors[0])
        ids = sorted(g.group_id for g in listed.valid if g.state.name not in _WITHOUT_MEMBERS)
        asked = ids[:most]
        described = self._described(asked, _WATCH_SECONDS)
        found = [group_of(id, described[id]) for id in asked]
        groups = tuple(g for g in found if g is not None and g.state != "empty")
        return ActiveGroups(groups, len(ids) - len(asked), complete=not listed.errors)

    # -- inside ----------------------------------------------------------------------------------

    def _described(self, ids: Sequence[str], seconds: float) -> dict[str, Any]:
        """Return what each group's coordinator tells of it, or the fault that came instead."""

        def ask(some: Sequence[str]) -> dict[str, Any]:
            if not some:
                return {}
            asked = self._client().describe_consumer_groups(some, request_timeout=seconds)
            return {id: self._settle(future) for id, future in asked.items()}

        found = ask(ids)
        moved = [id for id, answer in found.items() if is_elsewhere(answer)]
        if moved:
            self.close()  # it remembers coordinators for minutes, whatever they answer
            found |= ask(moved)
        return found

    def _client(self) -> Any:
        from confluent_kafka import KafkaException

        with self._opening:
            if self._opened is None:
                admin = quiet_admin(self._settings)
                # Asked first, because every other call waits much longer for a cluster in vain.
                try:
                    admin.describe_cluster(request_timeout=CONNECT_SECONDS).result()
                except KafkaException as error:
                    if not _is_there(admin, error.args[0].name()):
                        raise self._explained(error, opened=False) from error
                self._opened = admin
            return self._opened

    def _forget_if_in_vain(self, answers: Iterable[object]) -> None:
        """Open the client anew for the next call where a broker was waited for in vain.

        It may not know a broker that came up after it was opened, and asks one that died again and
        again, long after the cluster names it no more.
        """
        if any(isinstance(a, Fault) and "TIMED_OUT" in a.name for a in answers):
            self.close()

    def _settle(self, future: Any) -> Any:
        """Return a future's answer, or the fault that came instead."""
        from confluent_kafka import KafkaException

        try:
            return future.result()
        except KafkaException as error:
            return _fault(error)

    def raise_if_nothing(self, answers: Iterable[object]) -> None:
        """Raise when every answer is that nobody may ask, or that nobody answers."""
        faults = [answer if isinstance(answer, Fault) else None for answer in answers]
        if faults and all(f is not None and _is_denial(f) for f in faults):
            raise denied(f"The cluster says no: {faults[0]}.")
        if faults and all(f is not None and f.name in _NOBODY for f in faults):
            raise unreachable(self._settings, str(faults[0]))

    def _explained(self, error: Any, *, opened: bool = True) -> Exception:
        failure = _fault(error)
        if _is_denial(failure):
            return denied(f"The cluster says no: {failure.name}.")
        return unreachable(self._settings, str(failure) if opened else "")


def _is_there(admin: Any, failed: str) -> bool:
    """Return whether a cluster answers although what librdkafka asks the controller failed so.

    Brokers name any one of them as the controller, for some seconds also one that has just died.
    """
    from confluent_kafka import KafkaException

    if failed != "_TIMED_OUT":
        return failed == "_DESTROY_BROKER"  # somebody did answer
    try:
        admin.list_topics(timeout=_ANYBODY_SECONDS)
    except KafkaException:
        return False
    return True


_WITHOUT_MEMBERS = ("EMPTY", "DEAD")
_NOBODY = ("ALL_BROKERS_DOWN", "TRANSPORT")


def _is_denial(failure: Fault) -> bool:
    return "AUTHORIZATION" in failure.name or "AUTHENTICATION" in failure.name


def _fault(error: Any) -> Fault:
    """Return librdkafka's error by Kafka's name; its own (negative) codes are told apart."""
    from confluent_kafka import KafkaException

    inner = error.args[0] if isinstance(error, KafkaException) else error
    code = inner.code()
    if code > 0:
        found = fault(code, inner.str())
        assert found is not None
        return found
    names = {
        "_TIMED_OUT": "REQUEST_TIMED_OUT",
        "_AUTHENTICATION": "SASL_AUTHENTICATION_FAILED",
        # The connection that a client began with goes once it knows the brokers by id.
        "_DESTROY_BROKER": "TRANSPORT",
    }
    return Fault(names.get(inner.name(), inner.name().lstrip("_")), inner.str())


def _kind(resource: Resource) -> Any:
    from confluent_kafka.admin import ResourceType

    return ResourceType.BROKER if resource.kind is ResourceKind.BROKER else ResourceType.TOPIC


def _requests(resources: Iterable[Resource]) -> Iterator[list[Resource]]:
    """Yield what may go together: topics all at once, each broker alone (it answers itself)."""
    topics = []
    for resource in resources:
        if resource.kind is ResourceKind.TOPIC:
            topics.append(resource)
        else:
            yield [resource]
    if topics:
        yield topics


def _seconds(group: Sequence[Resource]) -> float:
    return _BROKER_SECONDS if group[0].kind is ResourceKind.BROKER else _SECONDS


def _rounds(changes: Sequence[ConfigChange]) -> list[list[ConfigChange]]:
    """Return changes in rounds that name each config once; Kafka refuses it twice in a request."""
    rounds: list[list[ConfigChange]] = []
    seen: dict[tuple[Resource, str], int] = {}
    for change in changes:
        at = seen.get((change.resource, change.name), 0)
        seen[change.resource, change.name] = at + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(change)
    return rounds
