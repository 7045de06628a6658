"""A simulated cluster's load as snapshots and windows, computed from its producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from core.cluster.log_dirs import with_log_dirs
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.load import windows
from core.load.load import Float64, Source
from core.load.snapshot.format import LoadSnapshot, Quality
from core.load.snapshot.manifest import state_broker_loads

# horizon, its length, how far apart rates are looked at within it
_HORIZONS = (
    ("5m", timedelta(minutes=5), timedelta(seconds=15)),
    ("1h", timedelta(hours=1), timedelta(minutes=2)),
    ("24h", timedelta(hours=24), timedelta(minutes=30)),
)
_WINDOW_STEP = timedelta(seconds=30)


@dataclass(frozen=True, eq=False)
class SimulatedLoad:
    """A simulated cluster at one moment; `readers` groups read each partition, shape [P]."""

    state: ClusterState
    readers: Float64
    message_bytes: Float64

    @classmethod
    def of(cls, cluster: SimulatedCluster) -> SimulatedLoad:
        state = cluster.describe_cluster()
        alive = [broker.id for broker in state.brokers if broker.alive]
        return cls(
            with_log_dirs(state, cluster.describe_log_dirs(alive)),
            *cluster.readers_and_message_bytes(),
        )

    def rates(
        self, cluster: SimulatedCluster, moments: Sequence[datetime]
    ) -> dict[tuple[str, str], Float64]:
        """Return (rate, statistic) over these moments, [P] each."""
        rates = cluster.produced_bytes_per_s(moments)
        columns: dict[tuple[str, str], Float64] = {}
        for statistic, column in (
            ("avg", rates.mean(axis=0)),
            ("p95", np.percentile(rates, 95, axis=0)),
            ("max", rates.max(axis=0)),
        ):
            columns["in_bytes_per_s", statistic] = column
            columns["out_bytes_per_s", statistic] = column * self.readers
            columns["messages_per_s", statistic] = column / self.message_bytes
        return columns


def build_snapshot(cluster: SimulatedCluster, picture: SimulatedLoad, number: int) -> LoadSnapshot:
    """Return the newest load; `number` makes the snapshot's id, which must grow."""
    state = picture.state
    now = state.fetched_at
    rates: dict[tuple[str, str, str], Float64] = {}
    for horizon, span, step in _HORIZONS:
        moments = [now - span + step * (i + 0.5) for i in range(span // step)]
        for (rate, statistic), column in picture.rates(cluster, moments).items():
            rates[horizon, rate, statistic] = column
    count = state.partition_count
    return LoadSnapshot(
        cluster_id=state.cluster_id,
        snapshot_id=f"{number:012d}",
        source=Source.SIMULATED,
        published_at=now,
        window_end=now,
        topics=tuple(topic.name for topic in state.topics),
        topic_of=state.topic_of,
        partition=state.partition,
        rates=rates,
        size_bytes=state.partition_size_bytes,
        growth_bytes_per_s=np.full(count, np.nan),
        quality=np.full(count, Quality.FULL, np.int8),
        method=np.ones(count, np.int8),
        brokers=state_broker_loads(
            state, rates["5m", "in_bytes_per_s", "avg"], rates["5m", "out_bytes_per_s", "avg"]
        ),
        metadata_hash=state.metadata_hash,
        leader=state.leader,
    )


def past_hours(since: datetime, until: datetime) -> list[datetime]:
    """Return the full hours in a span, oldest first."""
    first = since.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return [first + timedelta(hours=n) for n in range((until - first) // timedelta(hours=1) + 1)]


def as_if_at(picture: SimulatedLoad, moment: datetime) -> SimulatedLoad:
    """Return a picture of a time past, as if the layout had been this."""
    return replace(picture, state=replace(picture.state, fetched_at=moment))


def window_starts(since: datetime, until: datetime) -> list[datetime]:
    """Return the starts of all windows that overlap a span, newest first."""
    start, starts = windows.window_floor(until), []
    while start + windows.LENGTH > since:
        starts.append(start)
        start -= windows.LENGTH
    return starts


def build_window(
    cluster: SimulatedCluster, picture: SimulatedLoad, start: datetime
) -> windows.Window:
    """Return the window that starts at `start`, of times past as if the layout had been this."""
    state = picture.state
    until = min(start + windows.LENGTH, max(state.fetched_at, start + _WINDOW_STEP))
    steps = max(1, (until - start) // _WINDOW_STEP)
    moments = [start.astimezone(UTC) + _WINDOW_STEP * (i + 0.5) for i in range(steps)]
    rates = picture.rates(cluster, moments)
    return windows.Window(
        start=start,
        topics=tuple(topic.name for topic in state.topics),
        topic_of=state.topic_of,
        partition=state.partition,
        leader=state.leader,
        rates=rates,
        size_bytes=state.partition_size_bytes,
        brokers=state_broker_loads(
            state, rates["in_bytes_per_s", "avg"], rates["out_bytes_per_s", "avg"]
        ),
    )
