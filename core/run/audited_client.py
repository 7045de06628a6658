"""A client that writes every change of the cluster into the audit, before it is made and after."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from core.cluster.client import ClusterClient, NewPartitions, NewTopic
from core.cluster.configs import ConfigChange, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.run import audit


def audited(client: ClusterClient, cluster_id: str, run: str | None) -> ClusterClient:
    """Return `client` with its changing calls audited; all else is passed on as it is.

    They raise AuditError, with nothing changed, when the audit cannot be written. What is asked for
    again after the same fault is written ever more seldom (the 1st, 2nd, 4th, 8th … time again), as
    long as there is room to write it; the next other answer says how often it was tried, or
    `close` does. So is a config that is set again as it was set before, with no other value of it
    in between: somebody takes it away each time.
    """
    return cast(ClusterClient, _Audited(client, cluster_id, run))


Asked = TypeVar("Asked")

MAX_REMEMBERED = 1000
"""How many calls are remembered that may be made again; one that is forgotten is written again."""
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Call:
    """A call that may be made again, and how often the same was since its answer was written."""

    what: str
    detail: Mapping[str, Any]
    faults: Mapping[str, str] | None
    """None when it had no answer at all."""
    configs: frozenset[tuple[str, str]]
    """What it set, where it was taken: whose config, and which."""
    tries: int = 0
    written: int = 0
    """How many of these tries are in the audit."""

    @property
    def is_due(self) -> bool:
        """Return whether the next try is to be written: the 1st, 2nd, 4th, 8th …"""
        return self.tries & (self.tries + 1) == 0


class _Audited:
    def __init__(self, client: ClusterClient, cluster_id: str, run: str | None) -> None:
        self._client, self._cluster_id, self._run = client, cluster_id, run
        self._calls: dict[bytes, _Call] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def close(self) -> None:
        """Write how often calls were made that are not written yet, and close the client."""
        try:
            for call in self._calls.values():
                self._write_tries(call)
        except audit.AuditError as error:
            log.error("%s", error)
        finally:
            self._client.close()

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        told = {str(tp): list(after) for tp, after in targets.items()}
        return self._change(
            "submit", lambda: self._client.alter_reassignments(targets), targets=told
        )

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        told = [str(tp) for tp in partitions]
        return self._change(
            "cancel", lambda: self._client.cancel_reassignments(partitions), partitions=told
        )

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        told = [_change(change) for change in changes]
        configs = frozenset((str(resource), name or "") for resource, name, *_ in told)
        return self._change(
            "configs", lambda: self._client.alter_configs(changes), configs, changes=told
        )

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
            topic.name: {
                "replicas": _layout(topic.replicas),
                "configs": dict(topic.configs),
            }
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
        self,
        what: str,
        call: Callable[[], dict[Asked, Fault | None]],
        configs: frozenset[tuple[str, str]] = frozenset(),
        **detail: Any,
    ) -> dict[Asked, Fault | None]:
        """Make a call and write it down, before and after; the same again ever more seldom."""
        key = hashlib.sha256(json.dumps([what, detail], sort_keys=True).encode()).digest()
        self._forget_older(key, configs)
        before = self._calls.get(key)
        if before is None:
            self._note(what, **detail)
        elif before.is_due:
            self._note(what, **detail, tries=before.tries + 1)
            before.written = before.tries + 1
        else:
            audit.check_room()
        try:
            answers = call()
        except Exception:
            if before is None:
                self._remember(key, _Call(what, detail, None, frozenset()))
            else:
                before.tries += 1
            raise
        faults = {_name(asked): str(fault) for asked, fault in answers.items() if fault is not None}
        if before is not None and before.faults == faults:
            before.tries += 1
            return answers
        again_ = {"tries": before.tries + 1} if before is not None else {}
        taken = len(answers) - len(faults)
        self._note("answer", to=what, taken=taken, faults=faults, **again_)
        if faults or configs:
            self._remember(key, _Call(what, detail, faults, frozenset() if faults else configs))
        else:
            self._calls.pop(key, None)
        return answers

    def _forget_older(self, key: bytes, configs: frozenset[tuple[str, str]]) -> None:
        """Forget what was set before another value is: set once more, it is a change again."""
        for other, call in list(self._calls.items()):
            if other != key and not configs.isdisjoint(call.configs):
                self._write_tries(self._calls.pop(other))

    def _remember(self, key: bytes, call: _Call) -> None:
        self._calls[key] = call
        if len(self._calls) > MAX_REMEMBERED:
            self._write_tries(self._calls.pop(next(iter(self._calls))))

    def _write_tries(self, call: _Call) -> None:
        """Write how often a call was made again, unless that is written already."""
        if call.tries > call.written:
            self._note(call.what, **call.detail, tries=call.tries)
            call.written = call.tries

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
