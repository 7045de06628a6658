"""SimulatedCluster: a deterministic cluster with a clock, quotas, faults and load.

It speaks ClusterClient; the same spec and seed, advanced by the same steps, give the same cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Concatenate, ParamSpec

import numpy as np

from core.cluster.client import NewPartitions, NewTopic, OffsetAt, ReplicaRecords
from core.cluster.configs import ConfigChange, ConfigValue, Resource, ResourceKind
from core.cluster.groups import ActiveGroups, Group
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import NO_LEADER, Reassignment, TopicPartition
from core.cluster.simulation import controller, requests
from core.cluster.simulation.engine import FINE_SECONDS, STEP_SECONDS, Engine
from core.cluster.simulation.logs import Float64
from core.cluster.simulation.requests import (
    NO_ANSWER,
    build_broker_logs,
    build_state,
    unsupported,
)
from core.cluster.simulation.spec import ClusterSpec, SimulatedFaults
from core.cluster.state import ClusterState
from core.patterns import is_whole


class SimulatedClock:
    """The cluster's own clock: sleeping lets the cluster live on."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def now(self) -> datetime:
        return self._cluster.now

    def monotonic(self) -> float:
        return self._cluster.elapsed_seconds

    def sleep(self, seconds: float) -> None:
        # Less than the clock can tell would get nobody on who waits for a moment.
        self._cluster.advance(max(seconds, 1e-6))


P = ParamSpec("P")


def _delegate_to_engine(
    call: Callable[Concatenate[Engine, P], None],
) -> Callable[Concatenate[SimulatedCluster, P], None]:
    """Return a SimulatedCluster's method that its engine does, under the lock."""

    def method(self: SimulatedCluster, /, *args: P.args, **options: P.kwargs) -> None:
        with self._lock:
            call(self._engine, *args, **options)

    return method


class SimulatedCluster:
    """A ClusterClient in process. All calls are safe from several threads."""

    def __init__(self, spec: ClusterSpec, seed: int = 0) -> None:
        self.spec = replace(spec, topics=tuple(sorted(spec.topics, key=lambda t: t.name)))
        self.clock = SimulatedClock(self)
        self._lock = threading.RLock()
        self._engine = Engine(self.spec, seed)
        self._described: tuple[int, ClusterState] | None = None
        self._hidden: frozenset[str] = frozenset()
        self._skewed: str | None = None

    # -- time and faults ---------------------------------------------------------------------------

    @property
    def elapsed_seconds(self) -> float:
        return self._engine.elapsed

    @property
    def now(self) -> datetime:
        return self.spec.started_at + timedelta(seconds=self._engine.elapsed)

    advance = _delegate_to_engine(Engine.advance)
    stop_broker = _delegate_to_engine(Engine.stop_broker)
    start_broker = _delegate_to_engine(Engine.start_broker)
    fill_disk = _delegate_to_engine(Engine.fill_disk)
    pause_replication = _delegate_to_engine(Engine.pause_replication)
    resume_replication = _delegate_to_engine(Engine.resume_replication)
    delete_topic = _delegate_to_engine(Engine.delete_topic)

    def set_speed(self, speed: float) -> None:
        """Take longer steps, so that `speed` simulated seconds a real one cost little."""
        with self._lock:
            self._engine.step_seconds = max(STEP_SECONDS, speed / 20)
            self._engine.fine_seconds = max(FINE_SECONDS, min(speed / 50, STEP_SECONDS))

    def produced_bytes_per_s(self, moments: Sequence[datetime]) -> Float64:
        """Return what is produced to each partition at these moments, past or to come.

        Shape [len(moments), P], partitions as in `describe_cluster`; those that nobody can write
        to now count as quiet at all times.
        """
        with self._lock:
            engine = self._engine
            rows = np.array(list(engine.live_rows()), np.int64)
            engine.settle()
            at = [engine.logs.traffic.rates(moment.timestamp()) for moment in moments]
            rates: Float64 = np.stack(at)[:, rows]
            rates[:, ~engine.writable[rows]] = 0.0
            return rates

    def readers_and_message_bytes(self) -> tuple[Float64, Float64]:
        """Return how many groups read each partition, and its mean message size, both [P]."""
        with self._lock:
            engine = self._engine
            rows = np.array(list(engine.live_rows()), np.int64)
            return engine.readers.fan_out[rows], engine.logs.message_bytes[rows].astype(np.float64)

    def free_disk(self, broker: int) -> None:
        """Make room again; the log dirs come back when the broker is started again."""
        with self._lock:
            self._engine.disks.free(broker)

    def remove_disk(self, broker: int, log_dir: str) -> None:
        """Take a log dir out of a broker's configuration, while it is stopped.

        It starts without it; the replicas that lay there are made anew in another one, empty.
        """
        with self._lock:
            disks = self._engine.disks
            disks.remove(broker, disks.paths[broker].index(log_dir))

    def skew(self, of: str, times: float, partitions: Collection[TopicPartition]) -> None:
        """Have so many times the records sent to these partitions from now on; `of` names them."""
        with self._lock:
            index = self._engine.index
            rows = [index[tp] for tp in partitions if tp in index]
            self._engine.logs.traffic.skew(rows, times, self.now.timestamp())
            self._skewed = of

    def clear_skew(self) -> None:
        """Send what is sent without the skew."""
        with self._lock:
            self._engine.logs.traffic.clear_skew(self.now.timestamp())
            self._skewed = None

    def change_members(self, group: str, by: int) -> None:
        """Have a group that has members read with so many more, or fewer."""
        with self._lock:
            self._engine.readers.change_members(group, by)

    def fetch_faults(self) -> SimulatedFaults:
        """Return what was done to the cluster that is not in its description."""
        began = {group.id: group.members for group in self.spec.groups}
        with self._lock:
            members = self._engine.readers.members()
            more = {group: count - began[group] for group, count in members.items()}
            return SimulatedFaults(self._skewed, more, self._engine.disks.full())

    def hide_topics(self, names: Collection[str]) -> None:
        """Let this user describe all topics but these: only log dirs have them then."""
        with self._lock:
            self._hidden = frozenset(names)
            self._described = None

    # -- ClusterClient: reading ------------------------------------------------------------------

    def ping(self) -> None: ...

    def describe_cluster(self) -> ClusterState:
        with self._lock:
            engine = self._engine
            if self._described is None or self._described[0] != engine.version:
                state = build_state(engine, self.spec, self.now, self._hidden)
                self._described = (engine.version, state)
            return replace(self._described[1], fetched_at=self.now)

    def describe_log_dirs(self, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
        with self._lock:
            used_bytes = self._engine.logs.used_bytes(self._engine.disks.count)
            return tuple(build_broker_logs(self._engine, broker, used_bytes) for broker in brokers)

    def fetch_denied_topics(self, names: Collection[str]) -> frozenset[str]:
        return self._hidden.intersection(names)

    def fetch_reassignments(self) -> dict[TopicPartition, Reassignment]:
        with self._lock:
            return {
                self._engine.partitions[row]: Reassignment(r.replicas, r.adding, r.removing)
                for row, r in self._engine.in_flight()
            }

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        with self._lock:
            return {
                resource: self._resource_fault(resource)
                or self._engine.configs.effective(resource, names)
                for resource in resources
            }

    def fetch_offsets(
        self, partitions: Collection[TopicPartition], at: OffsetAt
    ) -> dict[TopicPartition, int]:
        with self._lock:
            engine = self._engine
            logs = engine.logs
            position = logs.start if at is OffsetAt.EARLIEST else logs.end
            offsets = {}
            for tp in partitions:
                row = engine.index.get(tp)
                if row is not None and engine.registrations[row].leader != NO_LEADER:
                    offsets[tp] = int(position[row] // logs.message_bytes[row])
            return offsets

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
        with self._lock:
            engine = self._engine
            groups = engine.readers.groups(engine.live_rows(), engine.alive)
        return tuple(group for group in groups if is_whole(matching, group.id))

    def describe_active_groups(self, limit: int) -> ActiveGroups:
        return ActiveGroups.from_groups(self.describe_groups(), limit)

    def close(self) -> None:
        """Nothing to give back."""

    # -- ClusterClient: changing ------------------------------------------------------------------

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        with self._lock:
            return {
                tp: self._change(tp, self._plan_reassignment(tuple(target)))
                for tp, target in targets.items()
            }

    def _plan_reassignment(self, target: tuple[int, ...]) -> controller.Change:
        fault = controller.check_assignment(target, self._engine.disks.paths)
        return lambda now, alive: fault or controller.reassign(now, target, alive)

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        with self._lock:
            return {tp: self._change(tp, controller.cancel_reassignment) for tp in partitions}

    def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool = False
    ) -> dict[TopicPartition, Fault | None]:
        with self._lock:
            change = controller.elect_unclean if unclean else controller.elect_preferred
            return {tp: self._change(tp, change) for tp in partitions}

    def _change(self, tp: TopicPartition, change: controller.Change) -> Fault | None:
        engine = self._engine
        row = engine.index.get(tp)
        if row is None:
            return controller.UNKNOWN_PARTITION
        changed = change(engine.registrations[row], engine.alive)
        if isinstance(changed, Fault):
            return changed
        engine.register(row, changed)
        return None

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        with self._lock:
            by_resource: dict[Resource, list[ConfigChange]] = {}
            for change in changes:
                by_resource.setdefault(change.resource, []).append(change)
            done = {
                resource: self._resource_fault(resource)
                or self._engine.configs.apply(changes_of_one)
                for resource, changes_of_one in by_resource.items()
            }
            self._engine.apply_configs(done)
            return done

    def fetch_list_entries(
        self, lists: Collection[tuple[Resource, str]]
    ) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
        with self._lock:
            return {
                (resource, name): self._engine.configs.entries(resource, name)
                for resource, name in lists
            }

    def create_topics(self, topics: Collection[NewTopic]) -> dict[str, Fault | None]:
        with self._lock:
            return {topic.name: requests.create_topic(self._engine, topic) for topic in topics}

    def add_partitions(self, additions: Mapping[str, NewPartitions]) -> dict[str, Fault | None]:
        with self._lock:
            return {
                name: requests.extend_topic(self._engine, name, n) for name, n in additions.items()
            }

    def delete_topics(self, names: Collection[str]) -> dict[str, Fault | None]:
        with self._lock:
            return {name: self._delete(name) for name in names}

    def _delete(self, topic: str) -> Fault | None:
        if topic not in self._engine.topic_ids:
            return controller.UNKNOWN_PARTITION
        self._engine.delete_topic(topic)
        return None

    def _resource_fault(self, resource: Resource) -> Fault | None:
        if resource.kind is ResourceKind.TOPIC:
            known = resource.name in self._engine.topic_ids
            return None if known else controller.UNKNOWN_PARTITION
        if resource.name == "":
            return None
        if not resource.name.isdigit() or int(resource.name) not in self._engine.alive:
            return Fault("REQUEST_TIMED_OUT", NO_ANSWER)
        return None

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        with self._lock:
            return {
                (tp, broker): self._engine.move_log_dir(tp, broker, path)
                for (tp, broker), path in moves.items()
            }
