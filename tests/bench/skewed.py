"""Clusters out of balance, of any size, by seed: what planners are measured on.

Topics differ by size, rate and readers, and their partitions by a little less. Either a tenth of
the brokers is new and empty, or brokers have been chosen unevenly for years.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from core.cluster.metadata import Broker, LogDir, Topic
from core.cluster.state import ClusterState, read_only
from core.load.load import Load

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PER_TOPIC = 40


@dataclass(frozen=True)
class Shape:
    """How large, and how it came to be out of balance: `new` brokers, or `skew`."""

    brokers: int
    partitions: int
    kind: str
    replicas: int = 3
    racks: int = 3
    seed: int = 1
    tight: bool = False
    """Whether brokers say their disks, 88 % full on the mean, and capacities a third above it."""

    def __str__(self) -> str:
        tight = ", tight" if self.tight else ""
        return f"{self.brokers} brokers × {self.partitions:,} partitions, {self.kind}{tight}"


def skewed(shape: Shape) -> tuple[ClusterState, Load]:
    """Return the cluster of a shape and what it carries; the same for the same shape."""
    random = np.random.default_rng(shape.seed)
    partitions, topics = shape.partitions, max(1, shape.partitions // PER_TOPIC)
    topic = np.sort(random.integers(0, topics, partitions)).astype(np.int32)
    sizes = random.lognormal(0, 1.2, topics)[topic] * random.lognormal(0, 0.4, partitions) * 1e9
    rates = random.lognormal(0, 1.2, topics)[topic] * random.lognormal(0, 0.4, partitions) * 1e5
    readers = random.integers(0, 4, topics)[topic]
    new = max(1, round(shape.brokers * 0.1)) if shape.kind == "new" else 0
    held = _held(random, shape, shape.brokers - new)
    count = held.size
    state = ClusterState(
        cluster_id="skewed",
        fetched_at=NOON,
        controller=0,
        brokers=tuple(Broker(b, rack=f"r{b % shape.racks}") for b in range(shape.brokers)),
        topics=tuple(Topic(f"topic-{t:06}") for t in range(topics)),
        topic_of=read_only(topic),
        partition=read_only(_numbers(topic, topics)),
        leader=read_only(held[:, 0].copy()),
        leader_epoch=read_only(np.zeros(partitions, np.int32)),
        replica_start=read_only(np.arange(partitions + 1, dtype=np.int64) * shape.replicas),
        replica_broker=read_only(held.ravel()),
        in_sync=read_only(np.ones(count, np.bool_)),
        adding=read_only(np.zeros(count, np.bool_)),
        removing=read_only(np.zeros(count, np.bool_)),
        size_bytes=read_only(np.repeat(sizes, shape.replicas).astype(np.int64)),
        lag=read_only(np.zeros(count, np.int64)),
        log_dir=read_only(np.full(count, -1, np.int32)),
    )
    load = Load(rates, rates * readers, rates / 1000, None, None)
    return (_tight(state, load) if shape.tight else state), load


def _tight(state: ClusterState, load: Load) -> ClusterState:
    """Return the cluster with disks and capacities that hard limits come from."""
    brokers, copies = len(state.brokers), np.diff(state.replica_start)
    used = np.bincount(state.replica_broker, state.size_bytes, brokers)
    total = int(max(used.mean() / 0.88, used.max() / 0.99))
    taken = float((load.in_bytes_per_s * copies).sum()) / brokers * 4 / 3
    sent = float((load.out_bytes_per_s + load.in_bytes_per_s * (copies - 1)).sum()) / brokers
    return state.with_brokers(
        [
            replace(
                broker,
                log_dirs=(LogDir("/data", total, total - int(used[broker.id])),),
                in_capacity_bytes_per_s=taken,
                out_capacity_bytes_per_s=sent * 4 / 3,
            )
            for broker in state.brokers
        ]
    )


def _held(random: np.random.Generator, shape: Shape, old: int) -> np.ndarray:
    """Return brokers [P, RF], every replica in another rack while there are enough.

    No broker holds two of a partition, however many racks there are.
    """
    weight = np.ones(old) if shape.kind == "new" else random.lognormal(0, 0.35, old)
    rack = np.arange(old) % shape.racks
    order = np.argsort(random.random((shape.partitions, shape.racks)), axis=1)
    held = np.full((shape.partitions, shape.replicas), -1, np.int32)
    for place in range(shape.replicas):
        for number in range(shape.racks):
            rows = np.flatnonzero(order[:, place % shape.racks] == number)
            here = np.flatnonzero(rack == number)
            part = weight[here] / weight[here].sum()
            while len(rows):
                held[rows, place] = random.choice(here, len(rows), p=part)
                rows = rows[(held[rows, :place] == held[rows, place][:, None]).any(axis=1)]
    return held


def _numbers(topic: np.ndarray, topics: int) -> np.ndarray:
    start = np.searchsorted(topic, np.arange(topics))
    return (np.arange(len(topic)) - start[topic]).astype(np.int32)
