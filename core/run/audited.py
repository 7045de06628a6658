"""A client that writes every change of the cluster into the audit, before it is made and after."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

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

    They raise AuditError, with nothing changed, when the audit cannot be written. What is asked for
    again after the same fault is written ever more seldom (the 1st, 2nd, 4th, 8th … time again), as
    long as there is room to write it; the next other answer says how often it was tried.
    """
    return cast(ClusterClient, _Audited(client, cluster_id, run))


Asked = TypeVar("Asked")

MOST_REFUSED = 1000
"""How many calls that came to nothing are remembered; one that is forgotten is written again."""


@dataclass(slots=True)
class _Refused:
    """A call that came to nothing, and how often the same was tried since that was written."""

    faults: Mapping[str, str] | None
    """None when it had no answer at all."""
    tries: int = 0

    @property
    def is_due(self) -> bool:
        """Return whether the next try is to be written: the 1st, 2nd, 4th, 8th …"""
        return self.tries & (self.tries + 1) == 0


class _Audited:
    def __init__(self, client: ClusterClient, cluster_id: str, run: str | None) -> None:
        self._client, self._cluster_id, self._run = client, cluster_id, run
        self._refused: dict[bytes, _Refused] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        told = {str(tp): list(after) for tp, after in targets.items()}
        return self._change(
            "submit", lambda: self._client.alter_reassignments(targets), targets=told
        )

    def cancel(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Fault | None]:
        told = [str(tp) for tp in partitions]
        return self._change("cancel", lambda: self._client.cancel(partitions), partitions=told)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        told = [_change(change) for change in changes]
        return self._change("configs", lambda: self._client.alter_configs(changes), changes=told)

    def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool = False
    ) -> dict[TopicPartition, Fault | None]:
        return self._change(
            "elect",
            lambda: self._client.elect_leaders(partitions, unclean=unclean),
            partitions=[str(tp) for tp in partitions],
            unclean=unclean,
        )

    def create_topics(self, topics: Collection[NewTopic]) -> dict[str, Fault | None]:
        told = {
            topic.name: {"replicas": _layout(topic.replicas), "configs": dict(topic.configs)}
            for topic in topics
        }
        return self._change(
            "create topics", lambda: self._client.create_topics(topics), topics=told
        )

    def add_partitions(self, additions: Mapping[str, NewPartitions]) -> dict[str, Fault | None]:
        told = {
            name: {"total": new.total, "replicas": _layout(new.replicas)}
            for name, new in additions.items()
        }
        return self._change(
            "add partitions", lambda: self._client.add_partitions(additions), topics=told
        )

    def delete_topics(self, names: Collection[str]) -> dict[str, Fault | None]:
        return self._change(
            "delete topics", lambda: self._client.delete_topics(names), topics=list(names)
        )

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        told = {f"{tp} on {b}": path for (tp, b), path in moves.items()}
        return self._change("log dirs", lambda: self._client.alter_log_dirs(moves), moves=told)

    def _change(
        self, what: str, call: Callable[[], dict[Asked, Fault | None]], **detail: Any
    ) -> dict[Asked, Fault | None]:
        """Make a call and write it down, before and after; the same in vain ever more seldom."""
        key = hashlib.sha256(json.dumps([what, detail], sort_keys=True).encode()).digest()
        before = self._refused.get(key)
        if before is None:
            self._note(what, **detail)
        elif before.is_due:
            self._note(what, **detail, tries=before.tries + 1)
        else:
            audit.check_room()
        try:
            answers = call()
        except Exception:
            if before is None:
                self._remember(key, None)
            else:
                before.tries += 1
            raise
        faults = {_name(asked): str(fault) for asked, fault in answers.items() if fault is not None}
        if before is not None and before.faults == faults and faults:
            before.tries += 1
            return answers
        again_ = {"tries": before.tries + 1} if before is not None else {}
        taken = len(answers) - len(faults)
        self._note("answer", to=what, taken=taken, faults=faults, **again_)
        if faults:
            self._remember(key, faults)
        else:
            self._refused.pop(key, None)
        return answers

    def _remember(self, key: bytes, faults: Mapping[str, str] | None) -> None:
        self._refused[key] = _Refused(faults)
        if len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def _note(self, what: str, **detail: Any) -> None:
        audit.note(self._cluster_id, self._run, what, **detail)


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
