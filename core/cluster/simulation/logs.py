"""The simulated cluster's logs: what is produced, kept, expired and where it lies, in columns.

Matrices are [P, B], partitions by brokers; positions are bytes of log since its beginning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from core.cluster.simulation.spec import DAY_SECONDS, ClusterSpec, PartitionSpec, TopicSpec

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

    def grow(self, rows: int) -> None:
        """Take in partitions that nobody produces to."""
        still = np.zeros(rows)
        self.mean_bytes_per_s = np.concatenate((self.mean_bytes_per_s, still))
        self._rhythm = np.concatenate((self._rhythm, still))
        self._jitter = np.concatenate((self._jitter, still))
        self._peak = np.concatenate((self._peak, still))
        self._phases = np.concatenate((self._phases, np.zeros((2, rows))), axis=1)
        self._periods = np.concatenate((self._periods, np.ones((2, rows))), axis=1)

    def skew(self, rows: Sequence[int], times: float, since: float) -> None:
        """Have so many times the bytes produced to these partitions from this time on."""
        self.even(since)
        self._skews.append(_Skew(np.array(rows, np.int64), times, since))

    def even(self, until: float) -> None:
        """End the skew that there is at this time."""
        self._skews = [
            replace(skew, until=until) if skew.until > until else skew for skew in self._skews
        ]

    def rates(self, epoch_seconds: float) -> Float64:
        """Return bytes/s produced to each partition at this time, shape [P]."""
        rates = self._even_rates(epoch_seconds)
        for skew in self._skews:
            if skew.since <= epoch_seconds < skew.until:
                rates[skew.rows] *= skew.times
        return rates

    def _even_rates(self, epoch_seconds: float) -> Float64:
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

    def grow(self, rows: int) -> None:
        """Take in new partitions: empty, without replicas, and quiet."""
        self.traffic.grow(rows)
        message_bytes = np.full(rows, 1_000, np.int64)
        self.message_bytes = np.concatenate((self.message_bytes, message_bytes))
        self.batch_bytes += [15_000] * rows
        still, forever = np.zeros(rows), np.full(rows, np.inf)
        self.start = np.concatenate((self.start, still))
        self.end = np.concatenate((self.end, still))
        self._first_start = np.concatenate((self._first_start, still))
        self._first_end = np.concatenate((self._first_end, still))
        self._idle_rate = np.concatenate((self._idle_rate, still))
        self.holds = grown(self.holds, rows)
        self.follows = grown(self.follows, rows)
        self.position = grown(self.position, rows)
        self.log_dir = grown(self.log_dir, rows)
        self.retention_seconds = np.concatenate((self.retention_seconds, forever))
        self.retention_bytes = np.concatenate((self.retention_bytes, forever))
        segment_bytes = np.full(rows, float(1 << 30))
        self.segment_bytes = np.concatenate((self.segment_bytes, segment_bytes))

    def place(self, row: int, broker: int, log_dir: int, position: float) -> None:
        """Give `broker` a replica that has the log up to `position`."""
        column = self.column[broker]
        self.holds[row, column] = True
        self.position[row, column] = position
        self.log_dir[row, column] = log_dir

    def drop(self, row: int, broker: int) -> None:
        column = self.column[broker]
        self.holds[row, column] = False
        self.position[row, column] = 0.0

    def produce(self, epoch_seconds: float, seconds: float, writable: Bool) -> Float64:
        """Append what producers send, copy it to followers in step; returns bytes, shape [P]."""
        made = self.traffic.rates(epoch_seconds) * seconds
        made[~writable] = 0.0
        self.end += made
        np.copyto(self.position, self.end[:, None], where=self.follows)
        return made

    def expire(self, elapsed_seconds: float) -> None:
        """Delete whole segments that retention no longer keeps; the active one stays."""
        mean = self.traffic.mean_bytes_per_s
        with np.errstate(invalid="ignore"):
            by_time = np.where(
                mean > 0,
                self.end - mean * self.retention_seconds,
                self._first_end + (elapsed_seconds - self.retention_seconds) * self._idle_rate,
            )
        wanted = np.maximum(np.nan_to_num(by_time, nan=-np.inf), self.end - self.retention_bytes)
        gone = np.floor(np.maximum(wanted - self._first_start, 0) / self.segment_bytes)
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


def grown(matrix: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Return a matrix [P, B] with so many rows of nothing below it."""
    return np.concatenate((matrix, np.zeros((rows, matrix.shape[1]), matrix.dtype)))
