"""Exact situations for tests, as a simulated cluster begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.cluster.metadata import TopicPartition
from core.cluster.simulation.spec import (
    BrokerSpec,
    ClusterSpec,
    GroupSpec,
    PartitionSpec,
    TopicSpec,
)


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
