"""Which load an autopilot judges by: a window of Spark's, else what the collector saw just now.

Imports pyarrow when asked.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from core.auto.guards import GOOD
from core.auto.observed import Sight
from core.auto.settings import LIVE_LOOKS
from core.cluster.state import ClusterState
from core.errors import DocumentError
from core.load.snapshot import Float64, Load, LoadSnapshot, Quality, Source

HORIZONS = ("1h", "5m")
"""What is judged, the first that is known of enough partitions: an hour forgives a burst."""
USUAL = "24h"
"""What is planned by, where that is known of enough partitions, too."""


class Sights:
    """What is published of one cluster's load, look after look."""

    def __init__(self, root: Path, cluster_id: str) -> None:
        self._root, self._cluster_id = root, cluster_id
        self._live: deque[LoadSnapshot] = deque(maxlen=LIVE_LOOKS)

    def look(self, state: ClusterState, now: datetime, stale_seconds: float) -> Sight | None:
        """Return the best that there is, good or not; None when there is nothing."""
        from core.load.published import read_live, read_snapshot

        try:
            published = read_snapshot(self._root, self._cluster_id)
        except DocumentError:
            published = None
        try:
            self._keep(read_live(self._root, self._cluster_id), stale_seconds)
        except DocumentError:
            self._live.clear()
        window = None if published is None else window_sight(state, published)
        live = live_sight(state, tuple(self._live)) if self._live else None
        if window is None or live is None:
            return window or live
        return window if _serves(window, now, stale_seconds) else _newer(window, live)

    def _keep(self, live: LoadSnapshot | None, stale_seconds: float) -> None:
        """Keep successive intervals; after a gap they begin anew."""
        if live is None:
            self._live.clear()
            return
        if self._live:
            last = self._live[-1]
            if last.snapshot_id == live.snapshot_id:
                return
            apart = live.window_end - last.window_end
            if not timedelta(0) < apart <= timedelta(seconds=stale_seconds):
                self._live.clear()
        self._live.append(live)


def window_sight(state: ClusterState, snapshot: LoadSnapshot) -> Sight:
    """Return a published window as it is judged."""
    good = _laid(state, snapshot, snapshot.quality <= Quality.HALF)
    for horizon in HORIZONS:
        load = snapshot.aligned(state, horizon)
        part = _known(state, load, good)
        if part >= GOOD:
            break

    def usual() -> Load | None:
        day = snapshot.aligned(state, USUAL)
        return day if _known(state, day, good) >= GOOD else None

    return Sight(snapshot.snapshot_id, load, part, usual=usual)


def live_sight(state: ClusterState, intervals: tuple[LoadSnapshot, ...]) -> Sight:
    """Return the mean of the collector's last intervals; what one of them lacks is not known."""
    loads = [interval.aligned(state) for interval in intervals]
    newest = intervals[-1]
    mean = Load(
        in_bytes_per_s=_mean([load.in_bytes_per_s for load in loads]),
        out_bytes_per_s=_mean([load.out_bytes_per_s for load in loads]),
        messages_per_s=_mean([load.messages_per_s for load in loads]),
        source=Source.LIVE,
        as_of=newest.window_end,
        in_error_bytes_per_s=_standard_error([load.in_bytes_per_s for load in loads]),
    )
    known = np.ones(state.partition_count, np.bool_)
    return Sight(newest.snapshot_id, mean, _known(state, mean, known), len(loads))


def _laid(state: ClusterState, snapshot: LoadSnapshot, good: np.ndarray) -> np.ndarray:
    """Return for each partition of the state whether its window is a good one, shape [P]."""
    marked = replace(snapshot, rates={("5m", "in_bytes_per_s", "avg"): np.where(good, 1.0, np.nan)})
    return np.asarray(marked.aligned(state).in_bytes_per_s == 1.0)


def _known(state: ClusterState, load: Load, good: np.ndarray) -> float:
    """Return the part of partitions that are known well: rate, size, and how they were measured."""
    if not state.partition_count:
        return 1.0
    known = ~np.isnan(load.in_bytes_per_s) & (state.partition_size_bytes >= 0) & good
    return float(known.mean())


def _mean(columns: list[Float64]) -> Float64:
    return np.asarray(np.mean(columns, axis=0))


def _standard_error(columns: list[Float64]) -> Float64 | None:
    """Return by how much the mean of a few may be off, None where there is one only."""
    if len(columns) < 2:
        return None
    return np.asarray(np.std(columns, axis=0, ddof=1) / np.sqrt(len(columns)))


def _serves(sight: Sight, now: datetime, stale_seconds: float) -> bool:
    as_of = sight.load.as_of
    fresh = as_of is not None and now - as_of <= timedelta(seconds=stale_seconds)
    return fresh and sight.good >= GOOD


def _newer(window: Sight, live: Sight) -> Sight:
    assert window.load.as_of is not None
    assert live.load.as_of is not None
    return live if live.load.as_of >= window.load.as_of else window
