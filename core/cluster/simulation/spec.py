"""What a simulated cluster is made of: brokers, topics with their partitions, consumer groups.

`small_spec` builds exact situations for tests; core.cluster.simulation.demo builds the demo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from core.cluster.state import TopicPartition

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
    """A consumer group that reads whole topics, `behind_seconds` behind the ends of their logs.

    Without members it is empty and its lag grows.
    """

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


def small_spec(
    layout: Mapping[str, Sequence[tuple[int, ...]]],
    *,
    brokers: Sequence[int] = (),
    racks: Mapping[int, str] | None = None,
    size_bytes: int | Mapping[TopicPartition, int] = 100_000_000,
    in_bytes_per_s: float | Mapping[TopicPartition, float] = 0.0,
    leaders: Mapping[TopicPartition, int] | None = None,
    sick: Mapping[TopicPartition, tuple[int, ...]] | None = None,
    topic_configs: Mapping[str, Mapping[str, str]] | None = None,
    broker_configs: Mapping[int, Mapping[str, str]] | None = None,
    static_configs: Mapping[int, Mapping[str, str]] | None = None,
    disk_bytes: int | Mapping[int, int] = 1_000_000_000_000,
    batch_bytes: int = 15_000,
    groups: tuple[GroupSpec, ...] = (),
    cluster_id: str = "simulated-small-000000",
) -> ClusterSpec:
    """Return a cluster of exactly this layout: topic → replicas of partitions 0, 1, ….

    Brokers are those that the layout names and `brokers`; two log dirs of half `disk_bytes`
    each, 1 TB for brokers left out; load is constant. Partitions that a mapping leaves out are
    empty and quiet.
    """
    ids = sorted({*brokers, *(b for lists in layout.values() for r in lists for b in r)})

    def disk(broker: int) -> int:
        if isinstance(disk_bytes, int):
            return disk_bytes
        return disk_bytes.get(broker, 1_000_000_000_000)

    def partition(tp: TopicPartition, replicas: tuple[int, ...]) -> PartitionSpec:
        return PartitionSpec(
            replicas=tuple(replicas),
            size_bytes=size_bytes if isinstance(size_bytes, int) else size_bytes.get(tp, 0),
            in_bytes_per_s=(
                in_bytes_per_s.get(tp, 0.0)
                if isinstance(in_bytes_per_s, Mapping)
                else in_bytes_per_s
            ),
            leader=(leaders or {}).get(tp),
            sick=(sick or {}).get(tp, ()),
        )

    return ClusterSpec(
        cluster_id=cluster_id,
        brokers=tuple(
            BrokerSpec(
                b,
                (racks or {}).get(b),
                tuple((f"/var/lib/kafka/{n}", disk(b) // 2) for n in range(2)),
                (static_configs or {}).get(b, {}),
                (broker_configs or {}).get(b, {}),
            )
            for b in ids
        ),
        topics=tuple(
            TopicSpec(
                name,
                tuple(partition(TopicPartition(name, i), r) for i, r in enumerate(lists)),
                (topic_configs or {}).get(name, {}),
                batch_bytes=batch_bytes,
            )
            for name, lists in sorted(layout.items())
        ),
        groups=groups,
    )
