"""Brokers, log dirs, topics and partitions as plain values: what a ClusterState is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

UNKNOWN = -1
NO_LEADER = -1


class TopicPartition(NamedTuple):
    """Kafka's name for a partition; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory of a broker; `error` says why its sizes are unknown."""

    path: str
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker; capacities come from the user's configuration and may be unknown."""

    id: int
    rack: str | None = None
    host: str = ""
    port: int = 0
    alive: bool = True
    log_dirs: tuple[LogDir, ...] = ()
    in_capacity_bytes_per_s: float | None = None
    out_capacity_bytes_per_s: float | None = None

    @property
    def server(self) -> str:
        """Return HOST:PORT as the broker tells clients, in lower case."""
        return f"{self.host}:{self.port}".lower()


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic and the configs that matter to moving it; None is unknown."""

    name: str
    id: str | None = None
    min_insync: int | None = None
    retention_ms: int | None = None
    cleanup_policy: str | None = None
    retention_bytes: int | None = None
    remote_storage: bool | None = None
    """Whether it is kept in remote storage, too: what is deleted by retention is deleted there."""

    @property
    def configs(self) -> dict[str, int | str | None]:
        """Return these configs by Kafka's names."""
        remote = None if self.remote_storage is None else str(self.remote_storage).lower()
        return {
            "min.insync.replicas": self.min_insync,
            "retention.ms": self.retention_ms,
            "retention.bytes": self.retention_bytes,
            "cleanup.policy": self.cleanup_policy,
            "remote.storage.enable": remote,
        }


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One partition in flight, as the controller lists it."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Return the assignment it will end with: replicas minus removing, in order."""
        return tuple(b for b in self.replicas if b not in self.removing)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition of a ClusterState as plain Python values, for building and for reading one."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader_epoch: int = UNKNOWN

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class FutureReplica:
    """A replica on its way to another log dir of its broker, and what has arrived there."""

    tp: TopicPartition
    broker: int
    log_dir: str
    size_bytes: int
