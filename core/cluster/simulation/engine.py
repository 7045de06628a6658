"""The simulated cluster's engine: time, faults and changes. SimulatedCluster locks it."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LOG_DIRS_RATE,
    MIN_INSYNC,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import NO_LEADER, TopicPartition
from core.cluster.simulation import controller
from core.cluster.simulation.configs import SimulatedConfigs
from core.cluster.simulation.controller import Registration
from core.cluster.simulation.groups import ConsumerGroups
from core.cluster.simulation.logs import (
    DIR_COPY_BYTES_PER_S,
    Bool,
    LogDirMove,
    LogDirs,
    Logs,
    add_rows,
)
from core.cluster.simulation.replication import Links, Throttles
from core.cluster.simulation.spec import ClusterSpec

STEP_SECONDS = 1.0
"""One step of time while every follower is in step."""
FINE_SECONDS = 0.1
"""One step of time while a follower is catching up."""
RETENTION_SECONDS = 10.0
"""How often retention is looked at."""


class Engine:
    """Columns, registrations and links of one cluster; `elapsed` seconds since its start."""

    def __init__(self, spec: ClusterSpec, seed: int) -> None:
        self._rng = rng = np.random.default_rng(seed)
        self.elapsed = 0.0
        self.version = 0
        self.step_seconds, self.fine_seconds = STEP_SECONDS, FINE_SECONDS
        self.partitions = [
            TopicPartition(t.name, i) for t in spec.topics for i in range(len(t.partitions))
        ]
        self.index = {tp: row for row, tp in enumerate(self.partitions)}
        self.topic_ids = {t.name: self._new_topic_id() for t in spec.topics}
        self.disks = LogDirs(spec.brokers)
        self.alive = {b.id for b in spec.brokers}
        self._paused: dict[int, float] = {}
        self.configs = SimulatedConfigs(
            {Resource.topic(t.name): t.configs for t in spec.topics}
            | {Resource.broker(b.id): b.dynamic_configs for b in spec.brokers},
            {b.id: b.static_configs for b in spec.brokers},
        )
        self.logs = Logs(spec, rng)
        self.throttles = Throttles(self.alive, self.logs.holds.shape)
        self.links = Links(self.logs, self.throttles, spec.link_bytes_per_s)
        self._epoch = spec.started_at.timestamp()
        self._stale = True
        shape = self.logs.holds.shape
        self._sick: Bool = np.zeros(shape, np.bool_)
        self.writable: Bool = np.zeros(shape[0], np.bool_)
        self._min_insync = [1] * shape[0]
        self._leader_column = np.full(shape[0], -1)
        self.registrations: list[Registration] = []
        self._place_replicas(spec)
        self.readers = ConsumerGroups(spec, self.partitions, self.logs)
        self.apply_configs([Resource.topic(t.name) for t in spec.topics])
        self.apply_configs([Resource.broker(b.id) for b in spec.brokers])

    def _new_topic_id(self) -> str:
        return base64.urlsafe_b64encode(self._rng.bytes(16)).decode().rstrip("=")

    def _place_replicas(self, spec: ClusterSpec) -> None:
        """Put every replica into the log dir with the fewest, in step unless it is sick."""
        for row, partition in enumerate(p for t in spec.topics for p in t.partitions):
            leader = partition.replicas[0] if partition.leader is None else partition.leader
            isr = tuple(b for b in partition.replicas if b not in partition.sick)
            self.registrations.append(Registration(partition.replicas, isr, leader))
            end = float(self.logs.end[row])
            behind = 0.05 * partition.size_bytes
            for broker in partition.replicas:
                sick = broker in partition.sick
                self._place(row, broker, end - behind if sick else end)
                self._sick[row, self.logs.column[broker]] = sick

    # -- time --------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, in fine steps while something is catching up."""
        until = self.elapsed + seconds
        while until - self.elapsed > 1e-9:
            self.settle()
            fine = self.links or self.disks.moves or self._paused
            self._step(min(self.fine_seconds if fine else self.step_seconds, until - self.elapsed))

    def _step(self, seconds: float) -> None:
        began, ends = self.elapsed, self.elapsed + seconds
        produced = self.logs.produce(self._epoch + began, seconds, self.writable)
        self.throttles.count_in_step(
            self.logs, self._leader_column, self.alive, began, seconds, produced
        )
        if self.links:
            for row, broker in self.links.catch_up(ends):
                now, min_insync = self.registrations[row], self._min_insync[row]
                self.register(row, controller.expand_isr(now, broker, self.alive, min_insync))
        self.elapsed = ends
        self.readers.advance()
        for (row, broker), move in list(self.disks.moves.items()):
            self._copy_between_dirs(row, broker, move, seconds)
        for broker, since in list(self._paused.items()):
            if ends - since >= 30.0:
                self._shrink_isrs(broker)
        if ends // RETENTION_SECONDS > began // RETENTION_SECONDS:
            self.logs.expire(ends)
        if int(ends) > int(began):
            self._fail_full_log_dirs()

    def settle(self) -> None:
        """Work out anew who follows in step, who catches up from whom, and what is writable."""
        if not self._stale:
            return
        self._stale = False
        logs = self.logs
        logs.follows[:] = False
        behind: dict[tuple[int, int], list[int]] = {}
        for row in self.live_rows():
            now = self.registrations[row]
            up = now.leader != NO_LEADER
            self._leader_column[row] = logs.column[now.leader] if up else -1
            self.writable[row] = up and len(now.isr) >= self._min_insync[row]
            for broker in now.replicas:
                if broker in now.isr:
                    steps = up and broker in self.alive and broker not in self._paused
                    logs.follows[row, logs.column[broker]] = steps or broker == now.leader
                elif up and self._can_fetch(row, broker):
                    behind.setdefault((now.leader, broker), []).append(row)
        self.links.relink(behind, self._leader_column, self.elapsed, self._epoch)

    def _can_fetch(self, row: int, broker: int) -> bool:
        column = self.logs.column[broker]
        return (
            broker in self.alive
            and broker not in self._paused
            and not self._sick[row, column]
            and int(self.logs.log_dir[row, column]) not in self.disks.offline[broker]
        )

    # -- what the controller and operators do ---------------------------------------------------

    def live_rows(self) -> Collection[int]:
        return self.index.values()

    def in_flight(self) -> Iterator[tuple[int, Registration]]:
        return (
            (row, self.registrations[row])
            for row in self.live_rows()
            if self.registrations[row].is_in_flight
        )

    def register(self, row: int, changed: Registration) -> None:
        """Take over one partition's new registration; replicas appear and vanish with it."""
        now = self.registrations[row]
        if changed == now:
            return
        for broker in now.replicas:
            if broker not in changed.replicas:
                self._drop(row, broker)
        for broker in changed.replicas:
            if broker not in now.replicas:
                self._place(row, broker, float(self.logs.start[row]))
        self.registrations[row] = changed
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._stale = True

    def _place(self, row: int, broker: int, position: float) -> None:
        self.logs.add_replica(row, broker, self.disks.choose(row, broker), position)

    def _drop(self, row: int, broker: int) -> None:
        column = self.logs.column[broker]
        self.disks.remove_replica(row, broker, int(self.logs.log_dir[row, column]))
        self.logs.remove_replica(row, broker)
        self._sick[row, column] = False

    def apply_configs(self, resources: Collection[Resource]) -> None:
        """Let changed configs take effect."""
        for resource in resources:
            if resource.kind is ResourceKind.TOPIC:
                self._apply_topic_configs(resource)
        for broker in self.alive:
            self.throttles.set_rates(
                broker,
                self.configs.value(Resource.broker(broker), LEADER_RATE),
                self.configs.value(Resource.broker(broker), FOLLOWER_RATE),
            )
        self._stale = True

    def _apply_topic_configs(self, resource: Resource) -> None:
        values = {n: v.value for n, v in self.configs.effective(resource).items()}
        rows = {tp.partition: row for tp, row in self.index.items() if tp.topic == resource.name}
        for row in rows.values():
            self.logs.retain(row, values)
            self._min_insync[row] = int(values[MIN_INSYNC] or 1)
        self.throttles.set_lists(rows, self.logs.column, values[LEADER_LIST], values[FOLLOWER_LIST])

    def move_log_dir(self, tp: TopicPartition, broker: int, path: str) -> Fault | None:
        """Start copying one replica to another log dir of its broker."""
        row = self.index.get(tp)
        if row is None:
            return controller.UNKNOWN_PARTITION
        if broker not in self.alive:
            return Fault("REQUEST_TIMED_OUT", "the broker does not answer")
        held = bool(self.logs.holds[row, self.logs.column[broker]])
        now = int(self.logs.log_dir[row, self.logs.column[broker]]) if held else None
        return self.disks.begin_move(tp, row, broker, now, path)

    def _copy_between_dirs(self, row: int, broker: int, move: LogDirMove, seconds: float) -> None:
        column = self.logs.column[broker]
        log_dir = int(self.logs.log_dir[row, column])
        is_waiting = move.left_behind or log_dir in self.disks.offline[broker]
        if is_waiting or broker not in self.alive:
            return
        rate = self.configs.value(Resource.broker(broker), LOG_DIRS_RATE)
        shared = min(float(rate or math.inf), DIR_COPY_BYTES_PER_S) / self.disks.moving_on(broker)
        size = float(self.logs.position[row, column] - self.logs.start[row])
        move.copied_bytes = min(move.copied_bytes + seconds * shared, size)
        if move.copied_bytes >= size:
            self.logs.log_dir[row, column] = self.disks.arrive(row, broker, log_dir)

    # -- faults -----------------------------------------------------------------------------------

    def stop_broker(self, broker: int) -> None:
        """Fence a broker: it leaves every ISR that has others in it, and leads nothing."""
        if broker in self.alive:
            self.alive.discard(broker)
            self._paused.pop(broker, None)
            self._shrink_isrs(broker)
            self._changed()

    def start_broker(self, broker: int) -> None:
        """Unfence a broker; what it led alone it leads again."""
        if broker in self.alive:
            return
        self.alive.add(broker)
        self.disks.restart(broker)
        self._recreate_replicas(broker)
        self._sick[:, self.logs.column[broker]] = False
        self.throttles.restart(broker, self.elapsed)
        self.apply_configs([])
        for row in self._broker_rows(broker):
            self.register(row, controller.elect_leader(self.registrations[row], self.alive))
        self._changed()

    def _recreate_replicas(self, broker: int) -> None:
        """Make the replicas that lay in log dirs which are gone anew, empty, where there is room.

        A copy of one that was begun is left behind on its disk, and goes no further (4.3.1).
        """
        column = self.logs.column[broker]
        for row in self._broker_rows(broker):
            log_dir = int(self.logs.log_dir[row, column])
            if log_dir in self.disks.removed[broker]:
                copy = self.disks.moves.get((row, broker))
                self._drop(row, broker)
                self._place(row, broker, float(self.logs.start[row]))
                if copy is not None:
                    self.disks.moves[row, broker] = replace(copy, left_behind=True)

    def _broker_rows(self, broker: int) -> list[int]:
        return [row for row in self.live_rows() if broker in self.registrations[row].replicas]

    def _shrink_isrs(self, broker: int) -> None:
        for row in self._broker_rows(broker):
            now = self.registrations[row]
            behind = self.logs.position[row, self.logs.column[broker]] < self.logs.end[row]
            if broker not in self.alive or (behind and broker != now.leader):
                self.register(
                    row, controller.shrink_isr(now, broker, self.alive, self._min_insync[row])
                )

    def pause_replication(self, broker: int) -> None:
        """Hang a broker's fetchers: it leaves ISRs replica.lag.time.max.ms later."""
        self._paused.setdefault(broker, self.elapsed)
        self._stale = True

    def resume_replication(self, broker: int) -> None:
        self._paused.pop(broker, None)
        self._stale = True

    def fill_disk(self, broker: int, path: str | None = None) -> None:
        """Fill a log dir, by default the first: it goes offline, and with the last its broker."""
        self._fail_log_dir(broker, self.disks.paths[broker].index(path) if path else 0)

    def _fail_full_log_dirs(self) -> None:
        used = self.logs.used_bytes(self.disks.count)
        for broker in sorted(self.alive):
            for d, total in enumerate(self.disks.total_bytes[broker]):
                taken = used[self.logs.column[broker], d] + self.disks.copied_bytes(broker, d)
                full = taken >= total
                if full and d not in self.disks.offline[broker]:
                    self._fail_log_dir(broker, d)

    def _fail_log_dir(self, broker: int, log_dir: int) -> None:
        """Take a log dir offline with its replicas; without any left the broker shuts down."""
        if not self.disks.take_offline(broker, log_dir):
            self.stop_broker(broker)
            return
        others = self.alive - {broker}
        for row in self._broker_rows(broker):
            if int(self.logs.log_dir[row, self.logs.column[broker]]) == log_dir:
                now = self.registrations[row]
                self.register(
                    row, controller.shrink_isr(now, broker, others, self._min_insync[row])
                )
        self._changed()

    def add_partitions(self, topic: str, registrations: Sequence[Registration]) -> None:
        """Take in new, empty partitions of a topic, which may be new itself."""
        first, rows = len(self.partitions), len(registrations)
        numbers = [tp.partition for tp in self.index if tp.topic == topic]
        after = max(numbers, default=-1) + 1
        added = [TopicPartition(topic, after + n) for n in range(rows)]
        if topic not in self.topic_ids:
            self.topic_ids[topic] = self._new_topic_id()
        self.partitions += added
        # In order: a description lists partitions as they are here.
        self.index = dict(
            sorted((self.index | {tp: first + n for n, tp in enumerate(added)}).items())
        )
        self.logs.add_rows(rows)
        self.throttles.add_rows(rows)
        add_rows(self, rows, "_sick", "writable")
        add_rows(self, rows, "_leader_column", value=-1)
        self._min_insync += [1] * rows
        self.registrations += registrations
        self.readers.add_rows(range(first, first + rows))
        for row, registration in enumerate(registrations, first):
            for broker in registration.replicas:
                self._place(row, broker, 0.0)
        self.apply_configs([Resource.topic(topic)])
        self._changed()

    def delete_topic(self, topic: str) -> None:
        """Forget a topic; its logs go with it."""
        for tp in [tp for tp in self.index if tp.topic == topic]:
            row = self.index.pop(tp)
            for broker in self.registrations[row].replicas:
                self._drop(row, broker)
            self.logs.follows[row] = False
            self.writable[row] = False
            self._leader_column[row] = -1
        self.topic_ids.pop(topic, None)
        self.configs.forget(Resource.topic(topic))
        self._changed()
