"""Free space on brokers' disks, each counted once, less what is still to be copied. Pure.

A log dir tells the space of its file system, so that two on one show the same.
See docs/explanation/kafka.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from core.cluster.metadata import LogDir, Topic
from core.cluster.state import ClusterState
from core.load.load import Load

HARDLY_USED = 0.90
"""Free part from which log dirs that show the same are taken for new disks of one make."""


@dataclass(frozen=True, slots=True)
class Disk:
    """One file system of a broker and the log dirs on it; its space is None where unknown."""

    paths: tuple[str, ...]
    total_bytes: int | None
    usable_bytes: int | None


def disks_of(log_dirs: Iterable[LogDir]) -> tuple[Disk, ...]:
    """Return a broker's disks that are online: log dirs of the same space to the byte share one."""
    alike: dict[object, list[LogDir]] = {}
    for log_dir in log_dirs:
        if log_dir.error is None:
            total, usable = log_dir.total_bytes, log_dir.usable_bytes
            # No other disk would show the same space.
            is_telling = total and usable is not None and usable < HARDLY_USED * total
            alike.setdefault((total, usable) if is_telling else log_dir.path, []).append(log_dir)
    return tuple(
        Disk(tuple(member.path for member in dirs), dirs[0].total_bytes, dirs[0].usable_bytes)
        for dirs in alike.values()
    )


def free_bytes(disks: Collection[Disk]) -> int | None:
    """Return what is free on all of them, None where that is not known of each."""
    known = [disk.usable_bytes for disk in disks if disk.usable_bytes is not None]
    return sum(known) if known and len(known) == len(disks) else None


def whole_bytes(disks: Collection[Disk]) -> int | None:
    """Return how large they are together, None where that is not known of each."""
    known = [disk.total_bytes for disk in disks if disk.total_bytes]
    return sum(known) if known and len(known) == len(disks) else None


def incoming_bytes(state: ClusterState, excluded_rows: Collection[int] = ()) -> Mapping[int, int]:
    """Return the bytes that reassignments in flight are still to bring, by broker."""
    replicas = np.flatnonzero(state.adding)
    rows = state.partition_of_replica[replicas]
    if excluded_rows:
        counts = ~np.isin(rows, np.fromiter(excluded_rows, np.int64, len(excluded_rows)))
        replicas, rows = replicas[counts], rows[counts]
    arrived = np.maximum(state.size_bytes[replicas], 0)
    left = np.maximum(state.partition_size_bytes[rows] - arrived, 0)
    brokers, of = np.unique(state.replica_broker[replicas], return_inverse=True)
    totals = np.zeros(len(brokers), np.int64)
    np.add.at(totals, of, left)
    return dict(zip(brokers.tolist(), totals.tolist(), strict=True))


def growth_bytes(state: ClusterState, load: Load, row: int, seconds: float) -> int:
    """Return by how much a replica of the partition in a row grows in so many seconds.

    That is what is produced, less what retention deletes: a partition that holds all that its
    topic keeps does not grow. What is not known to be deleted is not taken to be; a rate that is
    not known is taken for none, which a finding says.
    """
    rate = float(load.in_bytes_per_s[row])
    if not rate > 0:
        return 0
    kept = kept_bytes(state.topics[int(state.topic_of[row])], rate)
    room = kept - max(0, int(state.partition_size_bytes[row]))
    return round(max(0.0, min(rate * seconds, room)))


def kept_bytes(topic: Topic, bytes_per_s: float) -> float:
    """Return what a partition holds at the most at such a rate; infinity where nothing limits it.

    Brokers delete whole segments, so that it swings around that by half of one.
    """
    if "delete" not in (topic.cleanup_policy or ""):
        return math.inf
    by_time, by_size = topic.retention_ms, topic.retention_bytes
    return min(
        math.inf if by_time is None or by_time < 0 else bytes_per_s * by_time / 1000,
        math.inf if by_size is None or by_size < 0 else by_size,
    )


def retention_unknown(topic: Topic) -> bool:
    """Return whether it is not known what of a topic is deleted, so that nothing is taken to be."""
    if topic.cleanup_policy is None:
        return True
    return "delete" in topic.cleanup_policy and (
        topic.retention_ms is None or topic.retention_bytes is None
    )
