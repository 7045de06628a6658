"""Publishes snapshots of what windows and hours say; every file by rename."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.load import Source
from core.load.snapshot.format import HORIZONS, RATES, STATISTICS, Counts, LoadSnapshot, Quality
from core.load.snapshot.manifest import Manifest
from core.load.snapshot.writer import write_snapshot
from core.load.store import Root
from core.load.windows import (
    RETENTION,
    drop_samples,
    window_files,
    window_floor,
)
from core.pipeline.closing import Windows
from core.pipeline.horizons import Horizons
from core.pipeline.hours import Hours
from core.pipeline.memory import Said
from core.pipeline.placement import Placement, Placements
from core.pipeline.quarantine import TOO_LATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.pipeline.ledger import Batch

THINNED_A_BATCH = 4


class Publisher:
    """Owns the window files, the placement and the snapshots of one cluster."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        cluster_id: str,
        writer_epoch: int,
        snapshots: Root | None = None,
    ) -> None:
        self._root = root
        self._snapshots = snapshots or root
        self._cluster_id = cluster_id
        self._epoch = writer_epoch
        self._placements = Placements(root, cluster_id)
        self._thinned: datetime | None = None
        self._hours = Hours(spark, root, cluster_id)
        self.windows = Windows(spark, root, cluster_id, self._placements)
        self._horizons = Horizons(spark, root, cluster_id, self._hours, self.windows)

    def take_over(self, writer_epoch: int) -> None:
        """Publish under a new epoch from now on."""
        self._epoch = writer_epoch

    def write_partial(self, key: str, rows: Any) -> None:
        """Write a batch's samples that count; the same batch run again overwrites them."""
        self.windows.write_partial(key, rows)

    def place(self, start: datetime, at: datetime, table: Any) -> None:
        """Remember who held what at `at`, in the window of `start`."""
        self._placements.put(start, at, table)

    # -- windows ---------------------------------------------------------------------------------

    def merge(self, batch: Batch, newest: datetime) -> bool:
        """Take a batch into its windows, once; return whether it changed closed ones."""
        return self.windows.merge(batch, newest)

    def settle(self, batch: Batch, newest: datetime) -> None:
        """Write what has come, and compact what has closed, once the snapshot is out."""
        self.windows.settle(batch, newest)

    def roll_up(self, newest: datetime) -> None:
        """Roll up the hours whose last window is closed, and those that late samples changed."""
        self._hours.roll_up(newest)

    def prepare(self, newest: datetime) -> None:
        """Make ready what the next snapshots will ask Spark for."""
        self._horizons.prepare(newest)

    # -- snapshots -------------------------------------------------------------------------------

    def publish(
        self, batch_number: int, newest: datetime, now: datetime, counts: Counts
    ) -> Manifest | None:
        """Publish what the windows say up to `newest`; None while nobody is known to hold anything.

        Raises RefusedError when another writer has taken over.
        """
        placement = self._placements.newest(newest)
        if placement is None:
            return None
        snapshot_id = f"{self._epoch:06d}-{batch_number:08d}"
        said = self._horizons.statistics(newest)
        snapshot = self._snapshot(placement, snapshot_id, newest, now, said, counts)
        return write_snapshot(self._snapshots, snapshot, writer_epoch=self._epoch)

    def _snapshot(
        self,
        placement: Placement,
        snapshot_id: str,
        newest: datetime,
        now: datetime,
        said: Mapping[str, Said],
        counts: Counts,
    ) -> LoadSnapshot:
        count = len(placement)
        topic_of, topics = columns.to_codes(placement.table["topic"].dictionary_encode())
        rows = self.windows.keys.find(placement.table)
        known = rows >= 0

        def laid(values: Any, unknown: float = np.nan) -> Any:
            out = np.full(count, unknown, values.dtype)
            out[known] = values[rows[known]]
            return out

        rates = {
            (horizon, rate, statistic): laid(said[horizon].rates[rate, statistic])
            for horizon in HORIZONS
            for rate in RATES
            for statistic in STATISTICS
        }
        start, sizes = columns.to_lists(placement.table["sizes"])
        _, replicas = columns.to_lists(placement.table["replicas"])
        leader = columns.to_numpy(placement.table["leader"])
        led = replicas == np.repeat(leader, np.diff(start))
        size = np.full(count, -1, np.int64)
        of = np.repeat(np.arange(count), np.diff(start))
        np.maximum.at(size, of, sizes)
        sized = led & (sizes >= 0)
        size[of[sized]] = sizes[sized]
        return LoadSnapshot(
            cluster_id=self._cluster_id,
            snapshot_id=snapshot_id,
            source=Source.SPARK,
            published_at=now,
            window_end=newest,
            topics=topics,
            topic_of=topic_of,
            partition=columns.to_numpy(placement.table["partition"]),
            rates=rates,
            size_bytes=size,
            growth_bytes_per_s=laid(said["1h"].rates["growth_bytes_per_s", "avg"]),
            quality=laid(said["5m"].quality, int(Quality.NONE)),
            method=laid(said["5m"].method, 0),
            brokers=placement.brokers(
                rates["5m", "in_bytes_per_s", "avg"], rates["5m", "out_bytes_per_s", "avg"]
            ),
            counts=counts,
            leader=leader,
        )

    # -- housekeeping ----------------------------------------------------------------------------

    def retire(self, newest: datetime) -> None:
        """Delete windows of 8 days ago, hours of 90, and what only windows that change need."""
        self._hours.retire(newest)
        unchanging = window_floor(newest - TOO_LATE_AFTER)
        self._placements.retire(unchanging)
        self._thin(unchanging)
        oldest = f"date={(newest - RETENTION):%Y-%m-%d}"
        for folder in layout.windows(self._root, self._cluster_id).glob("date=*"):
            if folder.name < oldest:
                shutil.rmtree(folder, ignore_errors=True)

    def _thin(self, unchanging: datetime) -> None:
        """Take the samples out of a few windows before `unchanging`; the next batch goes on."""
        since = self._thinned or unchanging - timedelta(days=1)
        left = window_files(self._root, self._cluster_id, since, unchanging)
        for path in left[:THINNED_A_BATCH]:
            drop_samples(path)
        more = left[THINNED_A_BATCH:]
        self._thinned = layout.window_start(more[0]) if more else unchanging
