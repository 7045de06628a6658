"""SimulatorClient: a ClusterClient at the other end of a simulator's private Unix socket.

The other end is `server`; what travels is `wire`.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core.cluster.client import NewPartitions, NewTopic, OffsetAt, ReplicaRecords
from core.cluster.configs import ConfigChange, ConfigValue, Resource
from core.cluster.groups import ActiveGroups, Group
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.simulation import codec
from core.cluster.simulation.requests import unsupported
from core.cluster.state import ClusterState
from core.errors import UnreachableError

Json = Any

ANSWER_SECONDS = 30.0
"""How long a client waits for an answer."""


class SimulatorClock:
    """The simulator's clock, read here: both processes see the same monotonic clock."""

    def __init__(self, document: Json) -> None:
        self._at = datetime.fromisoformat(document["at"])
        self._began: float = document["monotonic"]
        self.speed: float = document["speed"]

    def now(self) -> datetime:
        return self._at + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * self.speed

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds) / self.speed)


@dataclass(frozen=True, slots=True)
class SimulatedFaults:
    """What drills have done to a simulated cluster and is not undone."""

    skewed: str | None
    """What gets more records than it would, in words."""
    more: Mapping[str, int]
    """For every group that has members: how many more than it began with, 0 if as many."""
    full: Mapping[int, tuple[str, ...]]
    """Log dirs without room, by broker."""


class SimulatorClient:
    """A ClusterClient at the other end of the socket.

    Raises UnreachableError from every call when the simulator is gone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stream: tuple[socket.socket, Any] | None = None
        self.last_answer_at = -math.inf
        """When it has last answered anything (monotonic seconds)."""
        self.clock = SimulatorClock(self._ask("clock"))

    def _connected(self) -> Any:
        if self._stream is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(ANSWER_SECONDS)
            try:
                connection.connect(str(self.path))
            except OSError:
                connection.close()
                raise
            self._stream = (connection, connection.makefile("rwb"))
        return self._stream[1]

    def _ask(self, call: str, *args: Json) -> Json:
        request = json.dumps({"call": call, "args": args}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                stream = self._connected()
                stream.write(request)
                stream.flush()
                line = stream.readline()
                if not line.endswith(b"\n"):
                    raise ConnectionError("the connection was closed")
            except OSError as error:
                self._disconnect()
                raise UnreachableError(
                    f"The simulator at {self.path} does not answer.",
                    detail=str(error),
                    next="Start one with: trimtab demo",
                ) from error
        self.last_answer_at = time.monotonic()
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the simulator refused {call}: {answer['error']}")
        return answer["answer"]

    def _disconnect(self) -> None:
        if self._stream is not None:
            connection, stream = self._stream
            self._stream = None
            # What was not yet sent goes down with a simulator that is gone: it is asked anew.
            with contextlib.suppress(OSError):
                stream.close()
            connection.close()

    # -- ClusterClient ---------------------------------------------------------------------------

    def ping(self) -> None:
        self._ask("clock")

    def describe_cluster(self) -> ClusterState:
        return codec.decode_state(self._ask("describe_cluster"))

    def describe_log_dirs(self, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
        return codec.decode_logs(self._ask("describe_log_dirs", [int(b) for b in brokers]))

    def fetch_denied_topics(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(self._ask("fetch_denied_topics", sorted(names)))

    def fetch_reassignments(self) -> dict[TopicPartition, Reassignment]:
        return codec.decode_by_partition(
            self._ask("fetch_reassignments"),
            lambda lists: Reassignment(*(tuple(one) for one in lists)),
        )

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        wanted = codec.encode_by_partition(targets, lambda target: [int(b) for b in target])
        return codec.decode_by_partition(
            self._ask("alter_reassignments", wanted), codec.decode_fault
        )

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        offsets_of = codec.encode_partitions(partitions)
        return codec.decode_by_partition(
            self._ask("cancel_reassignments", offsets_of), codec.decode_fault
        )

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        offsets_of = [codec.encode_resource(resource) for resource in resources]
        return codec.decode_configs(
            self._ask("describe_configs", offsets_of, None if names is None else list(names))
        )

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        done = self._ask("alter_configs", codec.encode_changes(changes))
        return {codec.decode_resource(r): codec.decode_fault(fault) for r, fault in done}

    def fetch_list_entries(
        self, lists: Collection[tuple[Resource, str]]
    ) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
        offsets_of = [[codec.encode_resource(resource), name] for resource, name in lists]
        return {
            (codec.decode_resource(resource), name): (
                fault if (fault := codec.decode_fault(refused)) else frozenset(entries)
            )
            for resource, name, entries, refused in self._ask("fetch_list_entries", offsets_of)
        }

    def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool = False
    ) -> dict[TopicPartition, Fault | None]:
        offsets_of = codec.encode_partitions(partitions)
        answers = self._ask("elect_leaders", offsets_of, unclean)
        return codec.decode_by_partition(answers, codec.decode_fault)

    def create_topics(self, topics: Collection[NewTopic]) -> dict[str, Fault | None]:
        offsets_of = [
            [topic.name, topic.replicas, dict(topic.describe_configs)] for topic in topics
        ]
        return self._by_topic("create_topics", offsets_of)

    def add_partitions(self, additions: Mapping[str, NewPartitions]) -> dict[str, Fault | None]:
        offsets_of = [[name, new.total, new.replicas] for name, new in additions.items()]
        return self._by_topic("add_partitions", offsets_of)

    def delete_topics(self, names: Collection[str]) -> dict[str, Fault | None]:
        return self._by_topic("delete_topics", list(names))

    def _by_topic(self, call: str, offsets_of: Json) -> dict[str, Fault | None]:
        return {name: codec.decode_fault(fault) for name, fault in self._ask(call, offsets_of)}

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        wanted = [[*tp, broker, path] for (tp, broker), path in moves.items()]
        return {
            (TopicPartition(topic, partition), broker): codec.decode_fault(fault)
            for topic, partition, broker, fault in self._ask("alter_log_dirs", wanted)
        }

    def fetch_offsets(
        self, partitions: Collection[TopicPartition], at: OffsetAt
    ) -> dict[TopicPartition, int]:
        offsets_of = codec.encode_partitions(partitions)
        return codec.decode_by_partition(self._ask("fetch_offsets", offsets_of, at.value), int)

    def fetch_replica_offsets(
        self, offsets_of: Mapping[int, Collection[TopicPartition]], at: OffsetAt
    ) -> dict[tuple[TopicPartition, int], int | Fault]:
        return {**unsupported(offsets_of)}

    def fetch_records(
        self, offsets_of: Mapping[int, Mapping[TopicPartition, int]], max_bytes: int
    ) -> dict[tuple[TopicPartition, int], ReplicaRecords | Fault]:
        return {**unsupported(offsets_of)}

    def describe_groups(
        self, matching: str | None = None, lost: Callable[[Fault], None] | None = None
    ) -> tuple[Group, ...]:
        return tuple(codec.decode_group(group) for group in self._ask("describe_groups", matching))

    def describe_active_groups(self, limit: int) -> ActiveGroups:
        return ActiveGroups.from_groups(self.describe_groups(), limit)

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    # -- what only a simulator can do --------------------------------------------------------------

    def stop_broker(self, broker: int) -> None:
        self._ask("stop_broker", broker)

    def start_broker(self, broker: int) -> None:
        self._ask("start_broker", broker)

    def fill_disk(self, broker: int, log_dir: str | None = None) -> None:
        self._ask("fill_disk", broker, log_dir)

    def free_disk(self, broker: int) -> None:
        self._ask("free_disk", broker)

    def skew(self, of: str, times: float, partitions: Collection[TopicPartition]) -> None:
        self._ask("skew", of, times, codec.encode_partitions(partitions))

    def clear_skew(self) -> None:
        self._ask("even")

    def change_members(self, group: str, by: int) -> None:
        self._ask("change_members", group, by)

    def fetch_faults(self) -> SimulatedFaults:
        """Return what was done to the cluster that is not in its description."""
        told = self._ask("faults")
        full = {broker: tuple(paths) for broker, paths in told["full"]}
        return SimulatedFaults(told["skewed"], told["more"], full)

    def shutdown(self) -> None:
        """Tell the simulator to end; a simulator that is gone already has done so."""
        with contextlib.suppress(UnreachableError):
            self._ask("shutdown")
