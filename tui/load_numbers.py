"""The numbers beside a chart of load: averages, peaks, growth and quality over three horizons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.cluster.metadata import TopicPartition
from core.load.snapshot.format import HORIZONS, RATES, STATISTICS, Float64, LoadSnapshot, Quality

if TYPE_CHECKING:
    from core.load.windows import History

HORIZON_SECONDS = {"5m": 300.0, "1h": 3600.0, "24h": 86400.0}


@dataclass(frozen=True, slots=True)
class Numbers:
    """`rates[(rate, statistic)]` are values for HORIZONS; NaN is unknown."""

    rates: dict[tuple[str, str], tuple[float, ...]]
    size_bytes: float
    growth_bytes_per_s: float
    quality: str


def partition_numbers(snapshot: LoadSnapshot, tp: TopicPartition) -> Numbers | None:
    """Return a partition's numbers as published; None when the snapshot lacks it."""
    row = row_of(snapshot, tp)
    if row is None:
        return None
    rates = {
        (rate, statistic): tuple(
            float(snapshot.rate(rate, horizon, statistic)[row]) for horizon in HORIZONS
        )
        for rate in RATES
        for statistic in STATISTICS
    }
    size = float(snapshot.size_bytes[row])
    return Numbers(
        rates,
        size if size >= 0 else float("nan"),
        float(snapshot.growth_bytes_per_s[row]),
        Quality(int(snapshot.quality[row])).name.lower(),
    )


def broker_numbers(history: History) -> Numbers:
    """Return a broker's numbers over its 5-minute windows, up to the newest one.

    A broker's p95 and max are those of its windows: partitions do not peak together, so theirs
    cannot be added.
    """
    rates: dict[tuple[str, str], tuple[float, ...]] = {}
    newest = float(history.starts[-1]) if len(history) else 0.0
    for (rate, statistic), values in history.rates.items():
        if statistic != "avg":
            continue
        parts = [
            _known(values[history.starts > newest - HORIZON_SECONDS[horizon]])
            for horizon in HORIZONS
        ]
        rates[rate, "avg"] = tuple(float(part.mean()) if len(part) else np.nan for part in parts)
        rates[rate, "p95"] = tuple(
            float(np.percentile(part, 95)) if len(part) else np.nan for part in parts
        )
        rates[rate, "max"] = tuple(float(part.max()) if len(part) else np.nan for part in parts)
    sized = np.flatnonzero(np.isfinite(history.size_bytes))
    size = float(history.size_bytes[sized[-1]]) if len(sized) else np.nan
    return Numbers(rates, size, _growth(history), "")


def row_of(snapshot: LoadSnapshot, tp: TopicPartition) -> int | None:
    """Return the row of a partition in a snapshot; rows are sorted by topic and number."""
    if tp.topic not in snapshot.topics:
        return None
    topic = snapshot.topics.index(tp.topic)
    start, stop = np.searchsorted(snapshot.topic_of, (topic, topic + 1))
    at = int(start) + int(np.searchsorted(snapshot.partition[start:stop], tp.partition))
    return at if at < stop and snapshot.partition[at] == tp.partition else None


def _known(values: Float64) -> Float64:
    return values[np.isfinite(values)]


def _growth(history: History) -> float:
    """Return bytes/s between the first and the last known size of the last hour."""
    if not len(history):
        return np.nan
    recent = np.isfinite(history.size_bytes) & (history.starts > history.starts[-1] - 3600)
    at = np.flatnonzero(recent)
    if len(at) < 2:
        return np.nan
    first, last = at[0], at[-1]
    passed = float(history.starts[last] - history.starts[first])
    return float(history.size_bytes[last] - history.size_bytes[first]) / passed
