"""ClusterState: one immutable, columnar description of brokers, topics, partitions and replicas.

Unknown is -1 in integer columns, never 0. A million partitions fit; a dict of objects would not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from core.cluster.access.hidden_topics import HiddenTopics
from core.cluster.metadata import (
    UNKNOWN,
    Broker,
    FutureReplica,
    PartitionRow,
    Topic,
    TopicPartition,
)
from core.errors import AccessDeniedError, rights_advice

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_A = TypeVar("_A", bound=npt.NDArray[Any])


def read_only(array: _A) -> _A:
    """Return a column as one that cannot be written to."""
    array.setflags(write=False)
    return array


TO_SEE_MOVES = "DESCRIBE on the cluster"
"""The right to know what is in flight."""


@dataclass(frozen=True, eq=False)
class ClusterState:
    """The cluster at one moment.

    Partition columns have length P and are sorted by (topic name, partition); replica columns
    have length R; the replicas of partition i are `replica_start[i]:replica_start[i+1]`, in
    assignment order, preferred leader first. `topic_of[i]` indexes `topics`.
    """

    cluster_id: str
    fetched_at: datetime
    controller: int | None
    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    topic_of: Int32
    partition: Int32
    leader: Int32
    leader_epoch: Int32
    replica_start: Int64
    replica_broker: Int32
    in_sync: Bool
    adding: Bool
    removing: Bool
    size_bytes: Int64
    lag: Int64
    log_dir: Int32
    """Index into `log_dir_paths` for each replica, -1 unknown."""
    log_dir_paths: tuple[str, ...] = ()
    future_replicas: tuple[FutureReplica, ...] = ()
    """Replicas on their way to another log dir, where brokers were asked for their logs."""
    moves_unknown: str = ""
    """Why it is not known what is in flight, in a sentence; "" where it is."""
    hidden: HiddenTopics | None = None
    """Topics that are none of these, as the user may not see them; None before anybody looked."""
    balancer_topics: frozenset[str] = frozenset()
    """Names of topics that tell of another balancer, as config.toml says."""

    @classmethod
    def build(
        cls,
        *,
        cluster_id: str,
        fetched_at: datetime,
        brokers: Iterable[Broker],
        topics: Iterable[Topic],
        partitions: Iterable[PartitionRow],
        controller: int | None = None,
        moves_unknown: str = "",
    ) -> ClusterState:
        """Return the state of these rows, with all topics they name; sizes and lags are unknown."""
        rows = sorted(partitions, key=lambda row: (row.topic, row.partition))
        known = {topic.name: topic for topic in topics}
        names = sorted(known.keys() | {row.topic for row in rows})
        index = {name: i for i, name in enumerate(names)}
        counts = np.fromiter((len(row.replicas) for row in rows), np.int64, len(rows))
        start = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        total = int(start[-1])

        def per_partition(values: Iterator[int]) -> Int32:
            return read_only(np.fromiter(values, np.int32, len(rows)))

        def per_replica(values: Iterator[bool]) -> Bool:
            return read_only(np.fromiter(values, np.bool_, total))

        return cls(
            cluster_id=cluster_id,
            fetched_at=fetched_at,
            controller=controller,
            brokers=tuple(sorted(brokers, key=lambda broker: broker.id)),
            topics=tuple(known.get(name, Topic(name)) for name in names),
            topic_of=per_partition(index[row.topic] for row in rows),
            partition=per_partition(row.partition for row in rows),
            leader=per_partition(row.leader for row in rows),
            leader_epoch=per_partition(row.leader_epoch for row in rows),
            replica_start=read_only(start),
            replica_broker=read_only(
                np.fromiter((b for row in rows for b in row.replicas), np.int32, total)
            ),
            in_sync=per_replica(b in row.isr for row in rows for b in row.replicas),
            adding=per_replica(b in row.adding for row in rows for b in row.replicas),
            removing=per_replica(b in row.removing for row in rows for b in row.replicas),
            size_bytes=read_only(np.full(total, UNKNOWN, np.int64)),
            lag=read_only(np.full(total, UNKNOWN, np.int64)),
            log_dir=read_only(np.full(total, UNKNOWN, np.int32)),
            moves_unknown=moves_unknown,
        )

    def has_any(self, servers: Collection[str]) -> bool:
        """Return whether a broker is among these, HOST:PORT in lower case."""
        return any(broker.server in servers for broker in self.brokers)

    def require_known_moves(self) -> None:
        """Raise AccessDeniedError where it is not known what is in flight."""
        if self.moves_unknown:
            raise AccessDeniedError(self.moves_unknown, next=rights_advice(TO_SEE_MOVES))

    @property
    def counts(self) -> dict[str, int | str | None]:
        """How much there is of what, and how much of it is unknown; no names."""
        return {
            "brokers": len(self.brokers),
            "not alive": sum(not broker.alive for broker in self.brokers),
            "topics": len(self.topics),
            "partitions": self.partition_count,
            "in flight": None if self.moves_unknown else int(self.reassigning.sum()),
            "replicas": self.replica_count,
            "of unknown size": int((self.size_bytes == UNKNOWN).sum()),
            "log dirs": len(self.log_dir_paths),
            "hidden topics": self.hidden.count if self.hidden else None,
        }

    @property
    def partition_count(self) -> int:
        return len(self.partition)

    @property
    def replica_count(self) -> int:
        return len(self.replica_broker)

    @cached_property
    def broker_by_id(self) -> Mapping[int, Broker]:
        return {broker.id: broker for broker in self.brokers}

    @cached_property
    def broker_ids(self) -> Int32:
        """Return all broker ids, ascending, shape [B]."""
        return read_only(np.array([broker.id for broker in self.brokers], np.int32))

    @cached_property
    def alive_ids(self) -> tuple[int, ...]:
        """Return the ids of the brokers that are alive, ascending."""
        return tuple(broker.id for broker in self.brokers if broker.alive)

    @cached_property
    def topic_index(self) -> Mapping[str, int]:
        return {topic.name: i for i, topic in enumerate(self.topics)}

    @cached_property
    def _topic_start(self) -> list[int]:
        start = np.searchsorted(self.topic_of, np.arange(len(self.topics) + 1))
        return [int(row) for row in start]

    def topic(self, name: str) -> Topic | None:
        index = self.topic_index.get(name)
        return None if index is None else self.topics[index]

    def partitions_of(self, topic: str) -> range:
        """Return the row indices of a topic's partitions; empty when there is no such topic."""
        index = self.topic_index.get(topic)
        if index is None:
            return range(0)
        return range(self._topic_start[index], self._topic_start[index + 1])

    def find(self, tp: TopicPartition) -> int | None:
        """Return the row index of a partition, or None when it does not exist."""
        rows, number = self.partitions_of(tp.topic), tp.partition
        # Few topics have gaps: searching takes ten times as long as looking where it should be.
        if 0 <= number < len(rows) and self.partition[rows.start + number] == number:
            return rows.start + number
        at = rows.start + int(np.searchsorted(self.partition[rows.start : rows.stop], number))
        return at if at < rows.stop and self.partition[at] == number else None

    def tp(self, index: int) -> TopicPartition:
        return TopicPartition(
            self.topics[int(self.topic_of[index])].name, int(self.partition[index])
        )

    def replicas(self, index: int) -> tuple[int, ...]:
        """Return the assignment of row `index`, in order, adding and removing ones included."""
        return tuple(self.replica_broker[self.replica_slice(index)].tolist())

    def replica_slice(self, index: int) -> slice:
        return slice(int(self.replica_start[index]), int(self.replica_start[index + 1]))

    def row(self, index: int) -> PartitionRow:
        at = self.replica_slice(index)
        brokers = self.replica_broker[at]

        def where(mask: Bool) -> tuple[int, ...]:
            return tuple(brokers[mask[at]].tolist())

        tp = self.tp(index)
        return PartitionRow(
            topic=tp.topic,
            partition=tp.partition,
            leader=int(self.leader[index]),
            leader_epoch=int(self.leader_epoch[index]),
            replicas=tuple(brokers.tolist()),
            isr=where(self.in_sync),
            adding=where(self.adding),
            removing=where(self.removing),
        )

    def rows(self) -> Iterator[PartitionRow]:
        return (self.row(i) for i in range(self.partition_count))

    @cached_property
    def partition_of_replica(self) -> Int64:
        """Return for each replica the row index of its partition, shape [R]."""
        counts = np.diff(self.replica_start)
        return read_only(np.repeat(np.arange(self.partition_count, dtype=np.int64), counts))

    @cached_property
    def hidden_bytes(self) -> Int64:
        """Return what each broker is known to hold of topics that are hidden, shape [B]."""
        held = self.hidden.by_broker(lambda log: log.size_bytes) if self.hidden else {}
        return read_only(np.array([held.get(b.id, 0) for b in self.brokers], np.int64))

    @cached_property
    def hidden_replicas(self) -> Int64:
        """Return how many replicas of hidden topics each broker is known to hold, shape [B]."""
        held = self.hidden.by_broker(lambda log: log.replicas) if self.hidden else {}
        return read_only(np.array([held.get(b.id, 0) for b in self.brokers], np.int64))

    def broker_columns(self, brokers: Int32) -> Int64:
        """Return which of `brokers` each id is, -1 for none of them; the shape stays."""
        ids = self.broker_ids
        at = np.searchsorted(ids, brokers).astype(np.int64)
        at[at == len(ids)] = 0
        return np.where(ids[at] == brokers, at, -1) if len(ids) else np.full(len(brokers), -1)

    @cached_property
    def leader_column(self) -> Int64:
        """Return which of `brokers` leads each partition, -1 for none, shape [P]."""
        return read_only(self.broker_columns(self.leader))

    @cached_property
    def replica_column(self) -> Int64:
        """Return which of `brokers` holds each replica, -1 for none, shape [R]."""
        return read_only(self.broker_columns(self.replica_broker))

    @cached_property
    def reassigning(self) -> Bool:
        """Return which partitions are in flight between brokers, shape [P]."""
        in_flight = np.zeros(self.partition_count, np.bool_)
        in_flight[self.partition_of_replica[self.adding | self.removing]] = True
        return read_only(in_flight)

    @cached_property
    def moving(self) -> Bool:
        """Return which partitions are in flight, between brokers or log dirs, shape [P]."""
        moving = self.reassigning.copy()
        moving[
            [row for copy in self.future_replicas if (row := self.find(copy.tp)) is not None]
        ] = True
        return read_only(moving)

    @cached_property
    def is_leader(self) -> Bool:
        """Return for each replica whether it leads its partition, shape [R]."""
        return read_only(self.replica_broker == self.leader[self.partition_of_replica])

    @cached_property
    def partition_size_bytes(self) -> Int64:
        """Return the leader's size, else the largest known replica's, else -1, shape [P]."""
        sizes = np.full(self.partition_count, UNKNOWN, np.int64)
        held = np.flatnonzero(np.diff(self.replica_start))
        if len(held):
            sizes[held] = np.maximum.reduceat(self.size_bytes, self.replica_start[held])
        leaders = self.is_leader & (self.size_bytes >= 0)
        sizes[self.partition_of_replica[leaders]] = self.size_bytes[leaders]
        return read_only(sizes)

    @cached_property
    def metadata_hash(self) -> str:
        """Return a short hash of who holds what, to notice that a layout has changed."""
        import hashlib

        digest = hashlib.sha256()
        for name in (topic.name for topic in self.topics):
            digest.update(name.encode() + b"\0")
        for column in (self.topic_of, self.partition, self.replica_start, self.replica_broker):
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()[:16]

    def with_topics(self, topics: Mapping[str, Topic]) -> ClusterState:
        """Return this state with these topics' configs."""
        return replace(self, topics=tuple(topics.get(t.name, t) for t in self.topics))

    def with_brokers(self, brokers: Sequence[Broker]) -> ClusterState:
        return replace(self, brokers=tuple(sorted(brokers, key=lambda broker: broker.id)))
