"""The published snapshot of load: what one holds, and how it is laid upon a cluster's state.

How it is written and read is in `core.load.snapshot.writer`.
`LoadSnapshot` is columnar like ClusterState but keeps keys of its own, because it is older than
the state it is laid upon; `aligned` lays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from core.cluster.state import ClusterState, Int32, Int64
from core.load.load import Float64, Load, Source, align_rows, take_rows

HORIZONS = ("5m", "1h", "24h")
RATES = ("in_bytes_per_s", "out_bytes_per_s", "messages_per_s")
STATISTICS = ("avg", "p95", "max")


class Quality(IntEnum):
    """How well a window is covered by samples (reference: Cruise Control's ladder, visible)."""

    FULL = 0
    """At least 90 % of the window is covered, by intervals that lie in it as much."""
    HALF = 1
    """At least half of it."""
    ADJACENT = 2
    """Filled from the time before: an interval over an outage of the collector."""
    SINGLE = 3
    """Less than half: the first samples, or the last before a gap."""
    NONE = 4


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the samples a snapshot is made of."""

    read: int = 0
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker's totals over the last 5 minutes, bytes/s; None is unknown.

    `follower_in` is what its followers fetch, `out` is consumers plus what followers fetch from it.
    """

    broker: int
    leader_in_bytes_per_s: float | None
    follower_in_bytes_per_s: float | None
    out_bytes_per_s: float | None
    size_bytes: int | None
    leaders: int
    replicas: int


@dataclass(frozen=True, eq=False)
class LoadSnapshot:
    """Load per partition; arrays have length N and are sorted by (topic, partition).

    `rates[(horizon, rate, statistic)]` is float64[N], NaN where unknown; keys from HORIZONS,
    RATES and STATISTICS. `out_bytes_per_s` counts consumers only, not followers.
    """

    cluster_id: str
    snapshot_id: str
    source: Source
    published_at: datetime
    window_end: datetime
    """When the newest sample in it was taken."""
    topics: tuple[str, ...]
    topic_of: Int32
    partition: Int32
    rates: Mapping[tuple[str, str, str], Float64]
    size_bytes: Int64
    growth_bytes_per_s: Float64
    quality: npt.NDArray[np.int8]
    method: npt.NDArray[np.int8]
    """How bytes were inferred, `core.load.samples.Method`; the worst in the window."""
    brokers: tuple[BrokerLoad, ...] = ()
    counts: Counts = Counts()
    metadata_hash: str | None = None
    leader: Int32 | None = None
    """The leader of each partition as the samples had it, -1 unknown; None when not recorded."""

    @property
    def has_rates(self) -> bool:
        """Return whether it knows what comes into any partition: a first one may not."""
        return bool(np.isfinite(self.rate("in_bytes_per_s")).any())

    def rate(self, rate: str, horizon: str = "5m", statistic: str = "avg") -> Float64:
        """Return one rate's column, all NaN when the snapshot does not carry it."""
        column = self.rates.get((horizon, rate, statistic))
        return np.full(len(self.partition), np.nan) if column is None else column

    def aligned(self, state: ClusterState, horizon: str = "5m") -> Load:
        """Lay this snapshot upon a state: arrays of length P, NaN for partitions it lacks."""
        rows = align_rows(self.topics, self.topic_of, self.partition, state)
        rates = {rate: take_rows(self.rate(rate, horizon), rows) for rate in RATES}
        return Load(**rates, source=self.source, as_of=self.window_end)


PARTITIONS = "partitions.arrow"


def rate_column(rate: str, horizon: str, statistic: str) -> str:
    """Return a rate's column name, like `in_bytes_per_s_5m_avg`."""
    return f"{rate}_{horizon}_{statistic}"
