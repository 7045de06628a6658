"""What a simulated cluster is made of: brokers, topics with their partitions, consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """One broker; each of `log_dirs` has its total bytes. Dynamic configs are as if altered."""

    id: int
    rack: str | None = None
    log_dirs: tuple[tuple[str, int], ...] = (
        ("/var/lib/kafka/0", 1_000_000_000_000),
        ("/var/lib/kafka/1", 1_000_000_000_000),
    )
    static_configs: Mapping[str, str] = field(default_factory=dict)
    dynamic_configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition: its replicas with the leader first unless `leader` says otherwise.

    `sick` replicas have a failed fetcher: out of the ISR and frozen until their broker restarts.
    """

    replicas: tuple[int, ...]
    size_bytes: int = 0
    in_bytes_per_s: float = 0.0
    leader: int | None = None
    sick: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic. `rhythm` is the daily swing around the mean rate, 0 for constant load."""

    name: str
    partitions: tuple[PartitionSpec, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    message_bytes: int = 1_000
    batch_bytes: int = 15_000
    rhythm: float = 0.0
    peak_hour: float = 14.0
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group that reads whole topics, so far behind; without members its lag grows."""

    id: str
    topics: tuple[str, ...]
    members: int = 1
    behind_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A whole cluster at its start. Rates of links are bytes/s for one fetcher between brokers."""

    cluster_id: str
    brokers: tuple[BrokerSpec, ...]
    topics: tuple[TopicSpec, ...]
    groups: tuple[GroupSpec, ...] = ()
    started_at: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    link_bytes_per_s: float = 400e6
    controller: int = 100


@dataclass(frozen=True, slots=True)
class SimulatedFaults:
    """What drills have done to a simulated cluster and is not undone."""

    skewed: str | None
    """What gets more records than it would, in words."""
    more: Mapping[str, int]
    """For every group that has members: how many more than it began with, 0 if as many."""
    full: Mapping[int, tuple[str, ...]]
    """Log dirs without room, by broker."""
