"""A client that writes every change of the cluster into the audit, before it is made and after."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
    return cast(ClusterClient, _AuditedClient(client, cluster_id, run))


Subject = TypeVar("Subject")
"""What a call changes, and has an answer of its own for."""

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


class _AuditedClient:
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
        call = partial(self._client.alter_reassignments, targets)
        replicas = {str(tp): list(after) for tp, after in targets.items()}
        return self._change("submit", call, targets=replicas)

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        call = partial(self._client.cancel_reassignments, partitions)
        return self._change("cancel", call, partitions=[str(tp) for tp in partitions])

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        rows = [
            [f"{c.resource.kind.value} {c.resource.name}", c.name, c.op.value, c.value]
            for c in changes
        ]
        configs = frozenset((str(resource), name or "") for resource, name, *_ in rows)
        call = partial(self._client.alter_configs, changes)
        return self._change("configs", call, configs, changes=rows)

    def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool = False
    ) -> dict[TopicPartition, Fault | None]:
        call = partial(self._client.elect_leaders, partitions, unclean=unclean)
        names = [str(tp) for tp in partitions]
        return self._change("elect", call, partitions=names, unclean=unclean)

    def create_topics(self, topics: Collection[NewTopic]) -> dict[str, Fault | None]:
        call = partial(self._client.create_topics, topics)
        wholes = {
            topic.name: {"replicas": _layout(topic.replicas), "configs": dict(topic.configs)}
            for topic in topics
        }
        return self._change("create topics", call, topics=wholes)

    def add_partitions(self, additions: Mapping[str, NewPartitions]) -> dict[str, Fault | None]:
        call = partial(self._client.add_partitions, additions)
        wholes = {
            name: {"total": new.total, "replicas": _layout(new.replicas)}
            for name, new in additions.items()
        }
        return self._change("add partitions", call, topics=wholes)

    def delete_topics(self, names: Collection[str]) -> dict[str, Fault | None]:
        call = partial(self._client.delete_topics, names)
        return self._change("delete topics", call, topics=list(names))

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        call = partial(self._client.alter_log_dirs, moves)
        paths = {f"{tp} on {b}": path for (tp, b), path in moves.items()}
        return self._change("log dirs", call, moves=paths)

    def _change(
        self,
        what: str,
        call: Callable[[], dict[Subject, Fault | None]],
        configs: frozenset[tuple[str, str]] = frozenset(),
        **detail: Any,
    ) -> dict[Subject, Fault | None]:
        """Make a call and write it down, before and after; the same again ever more seldom."""
        key = hashlib.sha256(json.dumps([what, detail], sort_keys=True).encode()).digest()
        for other, call_before in list(self._calls.items()):
            # What is set once more after another value was is a change again.
            if other != key and not configs.isdisjoint(call_before.configs):
                self._write_tries(self._calls.pop(other))
        before = self._calls.get(key)
        if before is None:
            self._note(what, **detail)
        elif before.tries & (before.tries + 1) == 0:  # for the 1st, 2nd, 4th, 8th time
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
        faults = {_name(of): str(fault) for of, fault in answers.items() if fault is not None}
        if before is not None and before.faults == faults:
            before.tries += 1
            return answers
        tries = {"tries": before.tries + 1} if before is not None else {}
        taken = len(answers) - len(faults)
        self._note("answer", to=what, taken=taken, faults=faults, **tries)
        if faults or configs:
            self._remember(key, _Call(what, detail, faults, frozenset() if faults else configs))
        else:
            self._calls.pop(key, None)
        return answers

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
    return [list(brokers) for brokers in replicas]


def _name(subject: Any) -> str:
    match subject:
        case Resource(kind, name):
            return f"{kind.value} {name}"
        case (TopicPartition() as tp, broker):
            return f"{tp} on {broker}"
        case _:
            return str(subject)
