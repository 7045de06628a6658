"""The simulated cluster's logs and log dirs: what is produced, kept, expired, and where it lies.

Matrices are [P, B], partitions by brokers; positions are bytes of log since its beginning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.spec import (
    DAY_SECONDS,
    BrokerSpec,
    ClusterSpec,
    PartitionSpec,
    TopicSpec,
)

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

IDLE_SPAN_SECONDS = 3_600.0
"""A log that nobody writes to any more is taken to have been written over this time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Skew:
    """So many times the bytes to these rows, between two times of day in epoch seconds."""

    rows: Int64
    times: float
    since: float
    until: float = math.inf


class Traffic:
    """What is produced to each partition at any moment: a pure function of time.

    Mean rate x daily rhythm x two slow waves of its own, so that history can be told without
    having been lived through; times the skew that somebody asked for, while it lasts.
    """

    def __init__(
        self, rows: Sequence[tuple[TopicSpec, PartitionSpec]], rng: np.random.Generator
    ) -> None:
        count = len(rows)
        self.mean_bytes_per_s: Float64 = np.array([p.in_bytes_per_s for _, p in rows], np.float64)
        self._rhythm: Float64 = np.array([t.rhythm for t, _ in rows], np.float64)
        self._jitter: Float64 = np.array([t.jitter for t, _ in rows], np.float64)
        self._peak: Float64 = np.array([t.peak_hour * 3600 for t, _ in rows], np.float64)
        self._phases = rng.uniform(0, 2 * np.pi, (2, count))
        self._periods = np.stack((rng.uniform(300, 1200, count), rng.uniform(1800, 7200, count)))
        self._steady = not self._rhythm.any() and not self._jitter.any()
        self._skews: list[_Skew] = []

    def add_rows(self, rows: int) -> None:
        """Take in partitions that nobody produces to."""
        add_rows(self, rows, "mean_bytes_per_s", "_rhythm", "_jitter", "_peak")
        self._phases = np.concatenate((self._phases, np.zeros((2, rows))), axis=1)
        self._periods = np.concatenate((self._periods, np.ones((2, rows))), axis=1)

    def skew(self, rows: Sequence[int], times: float, since: float) -> None:
        """Have so many times the bytes produced to these partitions from this time on."""
        self.clear_skew(since)
        self._skews.append(_Skew(np.array(rows, np.int64), times, since))

    def clear_skew(self, until: float) -> None:
        """End the skew that there is at this time."""
        self._skews = [
            replace(skew, until=until) if skew.until > until else skew for skew in self._skews
        ]

    def rates(self, epoch_seconds: float) -> Float64:
        """Return bytes/s produced to each partition at this time, shape [P]."""
        rates = self._unskewed_rates(epoch_seconds)
        for skew in self._skews:
            if skew.since <= epoch_seconds < skew.until:
                rates[skew.rows] *= skew.times
        return rates

    def _unskewed_rates(self, epoch_seconds: float) -> Float64:
        if self._steady:
            return self.mean_bytes_per_s.copy()
        day = 1 + self._rhythm * np.cos(2 * np.pi * (epoch_seconds - self._peak) / DAY_SECONDS)
        waves = np.sin(2 * np.pi * (epoch_seconds % 1e6) / self._periods + self._phases)
        rates: Float64 = self.mean_bytes_per_s * day * (1 + self._jitter * waves.mean(axis=0))
        return rates


class Logs:
    """Every replica's log. A follower in step (`follows`) has what the leader has."""

    def __init__(self, spec: ClusterSpec, rng: np.random.Generator) -> None:
        rows = [(t, p) for t in spec.topics for p in t.partitions]
        self.broker_ids = [broker.id for broker in spec.brokers]
        self.column = {b: i for i, b in enumerate(self.broker_ids)}
        self.traffic = Traffic(rows, rng)
        self.message_bytes: Int64 = np.array([t.message_bytes for t, _ in rows], np.int64)
        self.batch_bytes = [t.batch_bytes for t, _ in rows]
        size = np.array([p.size_bytes for _, p in rows], np.float64)
        mean = self.traffic.mean_bytes_per_s
        # What was expired before the cluster came into view: up to three days of load.
        older = np.where(mean > 0, np.floor(rng.uniform(1, 3, len(rows)) * DAY_SECONDS * mean), 0)
        self.start: Float64 = older - older % self.message_bytes
        self.end: Float64 = self.start + size
        self._first_start, self._first_end = self.start.copy(), self.end.copy()
        self._idle_rate = size / IDLE_SPAN_SECONDS
        shape = (len(rows), len(self.broker_ids))
        self.holds: Bool = np.zeros(shape, np.bool_)
        self.follows: Bool = np.zeros(shape, np.bool_)
        self.position: Float64 = np.zeros(shape, np.float64)
        self.log_dir: npt.NDArray[np.int8] = np.zeros(shape, np.int8)
        self.retention_seconds: Float64 = np.full(len(rows), np.inf)
        self.retention_bytes: Float64 = np.full(len(rows), np.inf)
        self.segment_bytes: Float64 = np.full(len(rows), float(1 << 30))

    def add_rows(self, rows: int) -> None:
        """Take in new partitions: empty, without replicas, and quiet."""
        self.traffic.add_rows(rows)
        self.batch_bytes += [15_000] * rows
        add_rows(self, rows, "start", "end", "_first_start", "_first_end", "_idle_rate")
        add_rows(self, rows, "holds", "follows", "position", "log_dir")
        add_rows(self, rows, "retention_seconds", "retention_bytes", value=np.inf)
        add_rows(self, rows, "message_bytes", value=1_000)
        add_rows(self, rows, "segment_bytes", value=1 << 30)

    def add_replica(self, row: int, broker: int, log_dir: int, position: float) -> None:
        """Give `broker` a replica that has the log up to `position`."""
        column = self.column[broker]
        self.holds[row, column] = True
        self.position[row, column] = position
        self.log_dir[row, column] = log_dir

    def remove_replica(self, row: int, broker: int) -> None:
        column = self.column[broker]
        self.holds[row, column] = False
        self.position[row, column] = 0.0

    def produce(self, epoch_seconds: float, seconds: float, writable: Bool) -> Float64:
        """Append what producers send, copy it to followers in step; returns bytes, shape [P]."""
        produced = self.traffic.rates(epoch_seconds) * seconds
        produced[~writable] = 0.0
        self.end += produced
        np.copyto(self.position, self.end[:, None], where=self.follows)
        return produced

    def expire(self, elapsed_seconds: float) -> None:
        """Delete whole segments that retention no longer keeps; the active one stays."""
        mean = self.traffic.mean_bytes_per_s
        with np.errstate(invalid="ignore"):
            by_time = np.where(
                mean > 0,
                self.end - mean * self.retention_seconds,
                self._first_end + (elapsed_seconds - self.retention_seconds) * self._idle_rate,
            )
        kept_from = np.maximum(np.nan_to_num(by_time, nan=-np.inf), self.end - self.retention_bytes)
        gone = np.floor(np.maximum(kept_from - self._first_start, 0) / self.segment_bytes)
        cut = np.minimum(self._first_start + gone * self.segment_bytes, self.end)
        self.start = np.maximum(self.start, cut - cut % self.message_bytes)
        np.maximum(self.position, self.start[:, None], out=self.position, where=self.holds)

    def sizes(self) -> Float64:
        """Return each replica's bytes on disk, 0 where there is none, shape [P, B]."""
        sizes: Float64 = np.where(self.holds, self.position - self.start[:, None], 0.0)
        return sizes

    def used_bytes(self, dir_count: int) -> Float64:
        """Return bytes used in each broker's log dirs, shape [B, dir_count]."""
        sizes = self.sizes()
        return np.stack(
            [np.where(self.log_dir == d, sizes, 0.0).sum(axis=0) for d in range(dir_count)], axis=1
        )

    def retain(self, row: int, configs: Mapping[str, str | None]) -> None:
        """Take over one partition's retention configs; a compacted log keeps its size."""

        def number(name: str) -> float:
            value = float(configs[name] or -1)
            return np.inf if value < 0 else value

        self.segment_bytes[row] = number("segment.bytes")
        if configs["cleanup.policy"] == "compact":
            self.retention_seconds[row] = np.inf
            self.retention_bytes[row] = self._first_end[row] - self._first_start[row]
        else:
            self.retention_seconds[row] = number("retention.ms") / 1000
            self.retention_bytes[row] = number("retention.bytes")


def add_rows(of: object, rows: int, *columns: str, value: float = 0) -> None:
    """Lengthen these arrays by partitions, [P] or [P, B], by so many rows of this value."""
    for name in columns:
        array: npt.NDArray[Any] = getattr(of, name)
        more = np.full((rows, *array.shape[1:]), value, array.dtype)
        setattr(of, name, np.concatenate((array, more)))


DIR_COPY_BYTES_PER_S = 200e6
"""How fast a broker copies between its log dirs when nothing throttles it."""


@dataclass(slots=True)
class LogDirMove:
    """One replica on its way to another log dir of its broker."""

    to: int
    copied_bytes: float = 0.0
    left_behind: bool = False
    """The replica is not there any more: brokers show the copy, and go on with it no further."""


class LogDirs:
    """Every broker's log dirs, by broker id and index; `moves` by (partition row, broker).

    `_preferred` are the dirs in which replicas are to be made that are not there yet: brokers keep
    that in memory, until the replica is made or they restart.
    """

    def __init__(self, brokers: Iterable[BrokerSpec]) -> None:
        self.paths = {b.id: tuple(path for path, _ in b.log_dirs) for b in brokers}
        self.total_bytes = {b.id: tuple(size for _, size in b.log_dirs) for b in brokers}
        self.count = max(len(paths) for paths in self.paths.values())
        self.offline: dict[int, set[int]] = {b: set() for b in self.paths}
        self.removed: dict[int, set[int]] = {b: set() for b in self.paths}
        """Log dirs that are not among the broker's any more."""
        self.moves: dict[tuple[int, int], LogDirMove] = {}
        self._full: dict[int, set[int]] = {b: set() for b in self.paths}
        self._replicas = {b: [0] * len(paths) for b, paths in self.paths.items()}
        self._preferred: dict[tuple[int, int], int] = {}

    def choose(self, row: int, broker: int) -> int:
        """Return the log dir for a new replica: the one asked for, else that with the fewest."""
        counts = self._replicas[broker]
        preferred = self._preferred.pop((row, broker), None)
        away = self.offline[broker] | self.removed[broker]
        if preferred is not None and preferred not in away:
            counts[preferred] += 1
            return preferred
        online = [d for d in range(len(counts)) if d not in away]
        chosen = min(online or [0], key=lambda d: counts[d])
        counts[chosen] += 1
        return chosen

    def remove_replica(self, row: int, broker: int, log_dir: int) -> None:
        """Forget one replica."""
        self._replicas[broker][log_dir] -= 1
        self.moves.pop((row, broker), None)

    def begin_move(
        self, tp: TopicPartition, row: int, broker: int, log_dir: int | None, path: str
    ) -> Fault | None:
        """Begin to copy a replica from its log dir to another one; None is no replica yet.

        To the dir where it lies ends a copy that was under way. Refused in the order of Kafka's
        ReplicaManager.alterReplicaLogDirs.
        """
        there = path in self.paths[broker]
        if not there or (to := self.paths[broker].index(path)) in self.removed[broker]:
            return Fault("LOG_DIR_NOT_FOUND", f"{path} is no log dir of broker {broker}.")
        if to in self.offline[broker]:
            return Fault("KAFKA_STORAGE_ERROR", f"{path} is offline.")
        if log_dir in self.offline[broker]:
            return Fault("KAFKA_STORAGE_ERROR", f"Partition {tp} is offline.")
        if log_dir is None:
            self._preferred[row, broker] = to
            return Fault("REPLICA_NOT_AVAILABLE", f"Broker {broker} has no replica of {tp}.")
        known = self.moves.get((row, broker))
        if known is not None and known.to != to:
            del self.moves[row, broker]
        if to != log_dir and (row, broker) not in self.moves:
            self.moves[row, broker] = LogDirMove(to)
        return None

    def moving_on(self, broker: int) -> int:
        """Return how many replicas a broker copies between its log dirs."""
        return sum(at == broker and not m.left_behind for (_, at), m in self.moves.items())

    def copied_bytes(self, broker: int, log_dir: int) -> float:
        """Return what copies under way take in a log dir."""
        return sum(
            move.copied_bytes
            for (_, at), move in self.moves.items()
            if at == broker and move.to == log_dir
        )

    def arrive(self, row: int, broker: int, before: int) -> int:
        """End a move between log dirs and return where the replica is now."""
        move = self.moves.pop((row, broker))
        self._replicas[broker][before] -= 1
        self._replicas[broker][move.to] += 1
        return move.to

    def usable_bytes(self, broker: int, log_dir: int, used_bytes: float) -> int:
        if log_dir in self._full[broker]:
            return 0
        return max(0, int(self.total_bytes[broker][log_dir] - used_bytes))

    def take_offline(self, broker: int, log_dir: int) -> bool:
        """Take a full log dir offline; returns whether the broker has one left.

        Copies into it are gone. One out of it goes no further: its replica is offline.
        """
        self._full[broker].add(log_dir)
        self.offline[broker].add(log_dir)
        for (row, at), move in list(self.moves.items()):
            if at == broker and move.to == log_dir:
                del self.moves[row, at]
        away = self.offline[broker] | self.removed[broker]
        return len(away) < len(self.paths[broker])

    def remove(self, broker: int, log_dir: int) -> None:
        """Take a log dir out of the broker's configuration: it starts without it."""
        self.removed[broker].add(log_dir)
        self._full[broker].discard(log_dir)
        self.offline[broker].discard(log_dir)

    def full(self) -> dict[int, tuple[str, ...]]:
        """Return the full log dirs, by broker."""
        return {
            broker: tuple(self.paths[broker][d] for d in sorted(dirs))
            for broker, dirs in self._full.items()
            if dirs
        }

    def free(self, broker: int) -> None:
        """Make room; what is offline comes back with `restart`."""
        self._full[broker].clear()

    def restart(self, broker: int) -> None:
        self.offline[broker] = set(self._full[broker])
        self._preferred = {key: d for key, d in self._preferred.items() if key[1] != broker}
