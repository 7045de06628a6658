"""A client that writes every change of the cluster into the audit, before it is made and after."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from core.cluster.client import (
    ClusterClient,
    ConfigChange,
    Fault,
    NewPartitions,
    NewTopic,
    Resource,
)
from core.cluster.state import TopicPartition
from core.run import audit


def audited(client: ClusterClient, cluster_id: str, run: str | None) -> ClusterClient:
    """Return `client` with its changing calls audited; all else is passed on as it is.

    They raise AuditError, with nothing changed, when the audit cannot be written.
    """
    return cast(ClusterClient, _Audited(client, cluster_id, run))


class _Audited:
    def __init__(self, client: ClusterClient, cluster_id: str, run: str | None) -> None:
        self._client, self._cluster_id, self._run = client, cluster_id, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        self._note("submit", targets={str(tp): list(after) for tp, after in targets.items()})
        return self._answered("submit", self._client.alter_reassignments(targets))

    def cancel(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Fault | None]:
        self._note("cancel", partitions=[str(tp) for tp in partitions])
        return self._answered("cancel", self._client.cancel(partitions))

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        self._note("configs", changes=[_change(change) for change in changes])
        return self._answered("configs", self._client.alter_configs(changes))

    def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool = False
    ) -> dict[TopicPartition, Fault | None]:
        self._note("elect", partitions=[str(tp) for tp in partitions], unclean=unclean)
        return self._answered("elect", self._client.elect_leaders(partitions, unclean=unclean))

    def create_topics(self, topics: Collection[NewTopic]) -> dict[str, Fault | None]:
        told = {
            topic.name: {"replicas": _layout(topic.replicas), "configs": dict(topic.configs)}
            for topic in topics
        }
        self._note("create topics", topics=told)
        return self._answered("create topics", self._client.create_topics(topics))

    def add_partitions(self, additions: Mapping[str, NewPartitions]) -> dict[str, Fault | None]:
        told = {
            name: {"total": new.total, "replicas": _layout(new.replicas)}
            for name, new in additions.items()
        }
        self._note("add partitions", topics=told)
        return self._answered("add partitions", self._client.add_partitions(additions))

    def delete_topics(self, names: Collection[str]) -> dict[str, Fault | None]:
        self._note("delete topics", topics=list(names))
        return self._answered("delete topics", self._client.delete_topics(names))

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        self._note("log dirs", moves={f"{tp} on {b}": path for (tp, b), path in moves.items()})
        return self._answered("log dirs", self._client.alter_log_dirs(moves))

    def _note(self, what: str, **detail: Any) -> None:
        audit.note(self._cluster_id, self._run, what, **detail)

    def _answered(self, what: str, answers: dict[Any, Fault | None]) -> dict[Any, Fault | None]:
        faults = {_name(asked): str(fault) for asked, fault in answers.items() if fault is not None}
        self._note("answer", to=what, taken=len(answers) - len(faults), faults=faults)
        return answers


def _layout(replicas: Sequence[tuple[int, ...]]) -> list[list[int]]:
    return [list(one) for one in replicas]


def _change(change: ConfigChange) -> list[str | None]:
    kind, name = change.resource
    return [f"{kind.value} {name}", change.name, change.op.value, change.value]


def _name(asked: Any) -> str:
    match asked:
        case Resource(kind, name):
            return f"{kind.value} {name}"
        case (TopicPartition() as tp, broker):
            return f"{tp} on {broker}"
        case _:
            return str(asked)
