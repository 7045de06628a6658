"""The demo's cluster: three racks, a hot broker 7, a broker 3 that leads too much, a young 12."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from core.cluster.simulation.spec import (
    BrokerSpec,
    ClusterSpec,
    GroupSpec,
    PartitionSpec,
    TopicSpec,
)

RACKS = "abc"
HOT, GREEDY = 7, 3
DISK_FILL = 0.6
"""How full the average broker is."""

MB = 0.42e6
"""The rates below are of a cluster that is larger than the demo's."""

# name, partitions, MB/s, hours kept, how far above its fair share the hot broker is
_NAMED: tuple[tuple[str, int, float, float, float], ...] = (
    ("payments.v2", 48, 212, 4, 3.2),
    ("orders", 64, 188, 4, 2.8),
    ("clicks", 128, 140, 2, 2.3),
    ("audit", 12, 12, 24, 1.2),
    ("sessions", 96, 96, 3, 1.6),
    ("inventory", 24, 31, 8, 1.5),
    ("search.queries", 32, 44, 3, 1.5),
    ("emails", 16, 8, 24, 1.2),
    ("geo.pings", 64, 70, 2, 1.6),
    ("ledger", 48, 52, 12, 1.5),
    ("reviews", 24, 18, 12, 1.4),
    ("carts", 32, 25, 6, 1.5),
    ("ads.impressions", 96, 101, 2, 2.4),
    ("recs.features", 64, 66, 3, 1.5),
    ("fraud.scores", 12, 9, 24, 1.2),
    ("images.meta", 24, 14, 12, 1.3),
    ("notif.push", 48, 37, 4, 1.4),
    ("billing.events", 32, 22, 12, 1.3),
    ("users.cdc", 24, 28, 12, 1.4),
    ("metrics.raw", 24, 83, 1, 1.4),
)
_COMPACTED = ("users.cdc",)
_SERVICES = (
    "auth",
    "basket",
    "catalog",
    "chat",
    "coupons",
    "delivery",
    "devices",
    "email",
    "export",
    "feed",
    "flags",
    "gateway",
    "growth",
    "identity",
    "invoices",
    "loyalty",
    "mailer",
    "media",
    "offers",
    "partners",
    "pricing",
    "profile",
)
_KINDS = ("commands", "events", "dlq", "retries", "state", "changelog", "audit-trail")

_GROUPS = (
    GroupSpec("billing", ("billing.events", "ledger", "payments.v2"), 6),
    GroupSpec("fraud", ("fraud.scores", "payments.v2", "sessions"), 8, 2.0),
    GroupSpec("checkout", ("carts", "inventory", "orders"), 6),
    GroupSpec("clickstream-etl", ("ads.impressions", "clicks", "geo.pings"), 12, 45.0),
    GroupSpec("search-indexer", ("reviews", "search.queries"), 4, 5.0),
    GroupSpec("recs-trainer", ("clicks", "recs.features"), 8, 600.0),
    GroupSpec("notifications", ("emails", "notif.push"), 3),
    GroupSpec("user-sync", ("users.cdc",), 2),
    GroupSpec("observability", ("metrics.raw",), 6, 1.0),
    GroupSpec("ledger-export", ("audit",), 14, 20.0),
    GroupSpec("audit-archive", ("audit",), 0, 3_600.0),
)


def demo_spec(
    seed: int = 0,
    brokers: int = 12,
    partitions: int = 4180,
    *,
    cluster_id: str | None = None,
    started_at: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
) -> ClusterSpec:
    """Return a cluster under load, the same for a seed; three racks take three brokers."""
    if brokers < len(RACKS) or partitions < 1:
        raise ValueError("a demo needs at least three brokers and one partition")
    rng = np.random.default_rng(seed)
    placement = _Placement(brokers)
    topics = tuple(
        _topic(plan, placement, rng, brokers) for plan in _topic_plans(partitions, brokers, rng)
    )
    used = np.zeros(brokers)
    for topic in topics:
        for partition in topic.partitions:
            used[np.array(partition.replicas) - 1] += partition.size_bytes
    # Ten percent above the fullest, whatever the seed did.
    disk = int(max(used.mean() / DISK_FILL, used.max() * 1.1)) // 2
    names = {topic.name for topic in topics}
    return ClusterSpec(
        cluster_id=cluster_id or f"trimtab-demo-{seed:09d}",
        brokers=tuple(
            BrokerSpec(b, rack, tuple((f"/var/lib/kafka/{n}", disk) for n in range(2)))
            for b, rack in placement.rack_of.items()
        ),
        topics=topics,
        groups=tuple(group for group in _GROUPS if set(group.topics) <= names),
        started_at=started_at,
    )


@dataclass(frozen=True, slots=True)
class _TopicPlan:
    name: str
    partitions: int
    bytes_per_s: float
    kept_hours: float
    hot_factor: float


def _topic_plans(partitions: int, brokers: int, rng: np.random.Generator) -> Iterator[_TopicPlan]:
    """Yield the named topics, fewer and smaller ones in a small demo, then a long quiet tail."""
    named = sum(count for _, count, *_ in _NAMED)
    scale = min(1.0, partitions / named)
    left = partitions
    for name, count, rate, hours, hot in _NAMED:
        size = min(left, max(1, round(count * scale)))
        if size:
            yield _TopicPlan(name, size, rate * MB * brokers / 12, hours, hot)
        left -= size
    tail = (f"{service}.{kind}" for kind in _KINDS for service in _SERVICES)
    for number, name in enumerate(tail):
        if not left:
            return
        # The last name takes what is left, however much.
        last = number == len(_SERVICES) * len(_KINDS) - 1
        size = left if last else min(left, int(rng.choice((8, 12, 16, 24, 32, 48))))
        yield _TopicPlan(name, size, size * float(rng.lognormal(9.2, 0.8)), 72, 1.3)
        left -= size


class _Placement:
    """Hands out leaders and followers by weight, always to who is furthest behind its due."""

    def __init__(self, brokers: int) -> None:
        ids = range(1, brokers + 1)
        self.brokers = brokers
        self.rack_of = {b: RACKS[(b - 1) * len(RACKS) // brokers] for b in ids}
        self._leader_counts = {hot: dict.fromkeys(ids, 0.0) for hot in (False, True)}
        self._follower_counts = dict.fromkeys(ids, 0.0)

    def leader(self, hot_topic: bool) -> int:
        """Return who leads next; of the hot topics the hot broker has twice its share."""
        weights = {GREEDY: 1.37, HOT: 2.2 if hot_topic else 0.8, self.brokers: 0.62}
        leader_counts = self._leader_counts[hot_topic]
        chosen = min(leader_counts, key=lambda b: (leader_counts[b] + 1) / weights.get(b, 1.0))
        leader_counts[chosen] += 1
        return chosen

    def followers(self, leader: int, turn: int) -> tuple[int, ...]:
        """Return one broker of each other rack; the turn decides which rack comes first."""
        chosen = []
        racks = [rack for rack in RACKS if rack != self.rack_of[leader]]
        for rack in racks[turn % 2 :] + racks[: turn % 2]:
            inside = [b for b, r in self.rack_of.items() if r == rack]
            young = self.brokers
            broker = min(
                inside, key=lambda b: (self._follower_counts[b] + 1) / (0.6 if b == young else 1.0)
            )
            self._follower_counts[broker] += 1
            chosen.append(broker)
        return tuple(chosen)


def _topic(
    plan: _TopicPlan, placement: _Placement, rng: np.random.Generator, brokers: int
) -> TopicSpec:
    leaders = [placement.leader(plan.hot_factor > 2) for _ in range(plan.partitions)]
    replicas = [(b, *placement.followers(b, turn)) for turn, b in enumerate(leaders)]
    rates = _rates(plan, leaders, rng, brokers)
    compacted = plan.name in _COMPACTED
    kept_seconds = plan.kept_hours * 3600
    configs = {
        "min.insync.replicas": "2",
        "retention.ms": str(int(kept_seconds * 1000)),
        **({"cleanup.policy": "compact"} if compacted else {}),
    }
    return TopicSpec(
        name=plan.name,
        partitions=tuple(
            PartitionSpec(
                replicas=on,
                size_bytes=int(rate * kept_seconds),
                in_bytes_per_s=rate,
                # The fetchers of these failed at some time; a restart of broker 7 mends them.
                sick=(HOT,) if plan.name == "audit" and HOT in on[1:] else (),
            )
            for on, rate in zip(replicas, rates, strict=True)
        ),
        configs=configs,
        message_bytes=int(rng.integers(200, 4_000)),
        rhythm=0.35,
        peak_hour=float(rng.normal(14, 2)),
        jitter=0.12,
    )


def _rates(
    plan: _TopicPlan, leaders: Sequence[int], rng: np.random.Generator, brokers: int
) -> list[float]:
    """Return each partition's mean bytes/s: uneven everywhere, and most where it is hot."""
    weight = rng.lognormal(0, 0.35, len(leaders))
    per_leader = np.bincount(leaders, minlength=brokers + 1)
    for i, broker in enumerate(leaders):
        factor = {HOT: plan.hot_factor, GREEDY: 1.05, brokers: 0.45}.get(broker, 0.82)
        # What a broker gets does not depend on how many partitions it leads.
        weight[i] *= factor / per_leader[broker]
    rates: list[float] = (weight / weight.sum() * plan.bytes_per_s).tolist()
    return rates
