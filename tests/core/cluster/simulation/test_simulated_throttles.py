"""Throttled copies on the simulated cluster take as long as they took on real brokers.

The rows are measurements (reference: Kafka 4.3.1, one machine). V is MB to copy, w their
production, R the throttle, in MB/s. The time depends on where in its 1 s slots the quota is when
the move starts, so a row is run at four phases and its median compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import pytest
from simulated import small_spec

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    Resource,
)
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster

MB = 1e6
NEW = 99
PHASES = (30.0, 30.25, 30.5, 30.75)


@dataclass(frozen=True)
class Copy:
    """One leader (or two) with `partitions` replicas to copy to broker 99."""

    partitions: int
    V: float
    R: float
    sides: str = "both"
    w: float = 0.0
    rf: int = 1
    batch: int = 15_000
    leaders: int = 1
    leader_listed: bool = True


def seconds_for(copy: Copy, started: float, limit: float = 400.0) -> float | None:
    """Return how long the copy takes, None when it does not end within `limit`."""
    followers = tuple(range(10, 10 + copy.rf - 1))
    layout = [(1 + i % copy.leaders, *followers) for i in range(copy.partitions)]
    cluster = SimulatedCluster(
        small_spec(
            {"t": layout},
            brokers=(NEW,),
            size_bytes=round((copy.V - started * copy.w) * MB / copy.partitions),
            in_bytes_per_s=copy.w * MB / copy.partitions,
            batch_bytes=copy.batch,
        )
    )
    cluster.advance(started)
    listed = {
        "leader": [
            f"{i}:{b}"
            for i, replicas in enumerate(layout)
            for b in (*replicas, NEW)
            if copy.leader_listed or b != replicas[0]
        ],
        "follower": [f"{i}:{NEW}" for i in range(copy.partitions)],
    }
    for side, list_name, rate_name in (
        ("leader", LEADER_LIST, LEADER_RATE),
        ("follower", FOLLOWER_LIST, FOLLOWER_RATE),
    ):
        if copy.sides in (side, "both"):
            pairs = ",".join(listed[side])
            changes = [ConfigChange(Resource.topic("t"), list_name, ConfigOp.APPEND, pairs)]
            changes += [
                ConfigChange(Resource.broker(b), rate_name, ConfigOp.SET, f"{copy.R * MB:.0f}")
                for b in {NEW, *(b for replicas in layout for b in replicas)}
            ]
            assert not any(cluster.alter_configs(changes).values())
    targets = {TopicPartition("t", i): (*replicas, NEW) for i, replicas in enumerate(layout)}
    assert not any(cluster.alter_reassignments(targets).values())
    began = cluster.elapsed_seconds
    while cluster.fetch_reassignments():
        if cluster.elapsed_seconds - began > limit:
            return None
        cluster.advance(0.05)
    return cluster.elapsed_seconds - began


@pytest.mark.parametrize(
    ("copy", "clock"),
    [
        (Copy(8, 241.4, 10), 26.2),
        (Copy(8, 241.4, 10, "follower"), 25.3),
        (Copy(8, 241.4, 10, "leader"), 23.8),
        (Copy(8, 160.2, 10, batch=591_000), 29.2),
        (Copy(8, 400.5, 5, batch=991_000), 86.2),
        (Copy(8, 400.5, 10, batch=991_000), 44.2),
        (Copy(8, 400.5, 200, batch=991_000), 2.5),
        (Copy(16, 804.7, 50), 18.1),
        (Copy(8, 241.4, 10, "follower", leaders=2), 25.9),
        (Copy(8, 201.2, 5, "leader", rf=2), 35.3),
        (Copy(1, 32.9, 1.9, "follower", w=0.71, rf=2), 30.4),
        (Copy(1, 26.1, 1.9, w=0.71, rf=2), 41.3),
        (Copy(1, 20.8, 2.4, w=0.51, rf=3), 18.3),
        (Copy(1, 12.9, 1.2, w=0.51, rf=2), 40.5),
    ],
    ids=str,
)
def test_simulated_copy_takes_within_five_percent_of_the_measured_time(
    copy: Copy, clock: float
) -> None:
    times = [seconds_for(copy, phase) for phase in PHASES]
    assert None not in times
    assert median(t for t in times if t is not None) == pytest.approx(clock, rel=0.05)


@pytest.mark.parametrize(
    ("copy", "clock", "off"),
    [
        # A second's sleep is long beside these: the follower stops and goes a few times only.
        (Copy(8, 400.5, 20, batch=991_000), 22.1, 0.07),
        (Copy(8, 400.5, 50, batch=991_000), 9.3, 0.09),
    ],
    ids=str,
)
def test_copy_with_few_throttle_pauses_is_within_nine_percent_of_measured_time(
    copy: Copy, clock: float, off: float
) -> None:
    times = [seconds_for(copy, phase) for phase in PHASES]
    assert None not in times
    assert median(t for t in times if t is not None) == pytest.approx(clock, rel=off)


def test_copy_at_a_quota_window_border_may_take_one_window_more() -> None:
    # The clock says 11.6 s; here 2 MB are left when the first window closes.
    times = [seconds_for(Copy(1, 27.9, 1.9, "leader", w=0.71, rf=2), phase) for phase in PHASES]
    assert all(t is not None and 11.6 < t < 11.6 + 12.6 for t in times)


def test_leader_missing_from_the_throttle_list_is_not_throttled() -> None:
    taken = seconds_for(Copy(1, 42.0, 1.9, "leader", w=0.71, rf=2, leader_listed=False), 30.0)
    assert taken is not None
    assert taken < 0.65


def test_copy_throttled_below_ordinary_replication_never_completes() -> None:
    assert seconds_for(Copy(1, 14.3, 1.0, w=0.71, rf=2), 0.0) is None
