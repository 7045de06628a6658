"""Moves in flight that no run of this machine owns: described, never changed.

Between brokers (reassignments) and between the log dirs of one (AlterReplicaLogDirs) alike.

Their progress is told from what successive pictures of the cluster show. Their target is known
(replicas without the leaving ones); the order that the replicas had before is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.plan.plan import log_dir_of

Key = tuple[TopicPartition, int | None]
RATE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ForeignMove:
    """One partition in flight: its target is known, the order that it had before is not.

    With a `broker` it is a replica on its way to another log dir there; no replica leaves.
    """

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    total_bytes: int | None
    arrived_bytes: int | None
    since: datetime | None = None
    """When it was first seen in flight."""
    bytes_per_s: float | None = None
    average_bytes_per_s: float | None = None
    idle_seconds: float = 0.0
    """How long no byte has come."""
    endless: bool = False
    """Whether it was overridden so that it never ends: one broker both arrives and leaves."""
    broker: int | None = None
    log_dir_before: str | None = None
    log_dir: str | None = None

    @property
    def key(self) -> Key:
        """Return what tells it from other moves: one partition can be in several."""
        return self.tp, self.broker

    @property
    def left_seconds(self) -> float | None:
        rate = self.bytes_per_s or self.average_bytes_per_s
        if not rate or self.total_bytes is None or self.arrived_bytes is None:
            return None
        return max(0, self.total_bytes - self.arrived_bytes) / rate


def foreign_moves(state: ClusterState, ours: Collection[TopicPartition]) -> tuple[ForeignMove, ...]:
    """Return the partitions in flight that are not `ours`."""
    moves = []
    for index in np.flatnonzero(state.reassigning).tolist():
        row = state.row(index)
        if row.tp in ours:
            continue
        at = state.replica_slice(index)
        sizes = state.size_bytes[at]
        adding = state.adding[at]
        whole = int(state.partition_size_bytes[index])
        arrived = sizes[adding]
        moves.append(
            ForeignMove(
                row.tp,
                tuple(b for b in row.replicas if b not in row.adding),
                tuple(b for b in row.replicas if b not in row.removing),
                whole * int(adding.sum()) if whole >= 0 else None,
                int(arrived.sum()) if len(arrived) and (arrived >= 0).all() else None,
                endless=not set(row.adding).isdisjoint(row.removing),
            )
        )
    return (*moves, *_log_dir_moves(state, ours))


def _log_dir_moves(state: ClusterState, ours: Collection[TopicPartition]) -> Iterator[ForeignMove]:
    for copy in sorted(state.future_replicas, key=lambda copy: (copy.tp, copy.broker)):
        index = state.find(copy.tp)
        if index is None or copy.tp in ours:
            continue
        replicas = state.replicas(index)
        size = int(state.size_bytes[state.replica_slice(index)][replicas.index(copy.broker)])
        yield ForeignMove(
            copy.tp,
            replicas,
            replicas,
            size if size >= 0 else None,
            copy.size_bytes,
            broker=copy.broker,
            log_dir_before=log_dir_of(state, copy.tp, copy.broker),
            log_dir=copy.log_dir,
        )


class ForeignWatch:
    """Remembers what pictures of the cluster showed of others' moves; forgets those that ended."""

    def __init__(self) -> None:
        self._last_bytes: dict[Key, list[tuple[datetime, int]]] = {}
        self._since: dict[Key, datetime] = {}

    def look(
        self, state: ClusterState, ours: Collection[TopicPartition]
    ) -> tuple[ForeignMove, ...]:
        """Take a picture in; return others' moves with the progress that was seen of them."""
        at, moves = state.fetched_at, foreign_moves(state, ours)
        for gone in self._since.keys() - {move.key for move in moves}:
            del self._since[gone]
            self._last_bytes.pop(gone, None)
        for move in moves:
            self._since.setdefault(move.key, at)
            track = self._last_bytes.setdefault(move.key, [])
            if move.arrived_bytes is not None and (not track or track[-1][1] != move.arrived_bytes):
                track.append((at, move.arrived_bytes))
            while len(track) > 2 and (at - track[1][0]).total_seconds() > RATE_SECONDS:
                del track[0]
        return tuple(self._with_progress(move, at) for move in moves)

    def _with_progress(self, move: ForeignMove, now: datetime) -> ForeignMove:
        track, since = self._last_bytes[move.key], self._since[move.key]
        if not track:
            return replace(move, since=since)
        (begun, first), (newest, last) = track[0], track[-1]
        took = (newest - begun).total_seconds()
        idle = (now - newest).total_seconds()
        rate = max(0, last - first) / took if took > 0 else None
        return replace(
            move,
            since=since,
            bytes_per_s=0.0 if idle > RATE_SECONDS else rate,
            average_bytes_per_s=rate,
            idle_seconds=idle,
        )
