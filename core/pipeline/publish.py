"""Merges partials into window files and publishes a snapshot of them; every file by rename."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from core import files
from core.load import columns, layout
from core.load.manifest import Manifest
from core.load.published import write_snapshot
from core.load.snapshot import (
    HORIZONS,
    RATES,
    STATISTICS,
    BrokerLoad,
    Counts,
    Float64,
    LoadSnapshot,
    Quality,
    Source,
)
from core.load.windows import (
    KEPT,
    floor,
    notes_of,
    thin,
    window_files,
    write_brokers,
    write_rows,
)
from core.pipeline import windows
from core.pipeline.horizons import Horizons
from core.pipeline.hours import Hours
from core.pipeline.judging import TOO_LATE_AFTER
from core.pipeline.placement import Placement, Placements
from core.pipeline.samples import taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.pipeline.ledger import Batch

THINNED_A_BATCH = 4


class Publisher:
    """Owns the window files, the placement and the snapshots of one cluster."""

    def __init__(self, spark: SparkSession, root: Path, cluster_id: str, writer_epoch: int) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id
        self._epoch = writer_epoch
        self._placements = Placements(root, cluster_id)
        self._thinned: datetime | None = None
        self._hours = Hours(spark, root, cluster_id)
        self._horizons = Horizons(spark, root, cluster_id, self._hours)

    def partial_file(self, key: str) -> Path:
        return layout.partials(self._root, self._cluster_id) / f"b={key}.parquet"

    def take_over(self, writer_epoch: int) -> None:
        """Publish under a new epoch from now on."""
        self._epoch = writer_epoch

    def partials(self) -> list[str]:
        """Return the keys of the batches whose partials are kept, sorted."""
        folder = layout.partials(self._root, self._cluster_id)
        return sorted(path.stem.removeprefix("b=") for path in folder.glob("b=*.parquet"))

    def write_partial(self, key: str, rows: Any) -> None:
        """Write a batch's leader samples that count; the same batch run again overwrites them."""
        led = np.flatnonzero(columns.to_numpy(rows["is_leader"]))
        table = taken(rows.select(windows.SAMPLE_COLUMNS), led)
        files.write_whole(self.partial_file(key), lambda aside: pq.write_table(table, aside))

    def place(self, start: datetime, at: datetime, table: Any) -> None:
        """Remember who held what at `at`, in the window of `start`."""
        self._placements.put(start, at, table)

    # -- windows ---------------------------------------------------------------------------------

    def merge(self, batch: Batch) -> None:
        """Merge a batch's partials into its windows; a window that has them already is left."""
        merged = {start: self._batches_in(start) for start in batch.windows}
        due = [start for start, keys in merged.items() if batch.key not in keys]
        if not due:
            return
        samples = self._spark.read.schema(windows.SAMPLE_SCHEMA).parquet(
            str(self.partial_file(batch.key))
        )
        rows = windows.partial(samples).where(F.col("window_start").isin(due))
        existing = [path for start in due if (path := self._file(start)).exists()]
        if existing:
            before = self._spark.read.schema(rows.schema).parquet(*_strings(existing))
            rows = rows.unionByName(before)
        table = windows.finished(windows.merge(rows)).toArrow()
        starts = columns.to_numpy(table["window_start"])
        for start in due:
            mine = np.flatnonzero(starts == round(start.timestamp() * 1e6))
            part = table.take(columns.numbers(mine, pa.int64()))
            notes = {"batches": ",".join([*sorted(merged[start]), batch.key])}
            # Rows last: their notes say that the batch is in, and the brokers' totals are by then.
            write_brokers(self._root, self._cluster_id, start, self._window_brokers(start, part))
            write_rows(self._root, self._cluster_id, start, part, notes)

    def _file(self, start: datetime) -> Path:
        return layout.window_file(self._root, self._cluster_id, start)

    def _batches_in(self, start: datetime) -> frozenset[str]:
        path = self._file(start)
        if not path.exists():
            return frozenset()
        return frozenset(notes_of(path).get("batches", "").split(",")) - {""}

    def _window_brokers(self, start: datetime, table: Any) -> tuple[BrokerLoad, ...]:
        """Return the brokers' totals in a window, with replicas where its last poll saw them."""
        placement = self._placements.of(start)
        if placement is None:
            return ()
        at = placement.rows_of(table)
        here = at >= 0
        return placement.brokers(
            *(
                placement.laid(columns.to_numpy(table[f"{rate}_avg"])[here], at[here])
                for rate in ("in_bytes_per_s", "out_bytes_per_s")
            )
        )

    def statistics(self, newest: datetime) -> Any:
        """Return avg, p95 and max of each rate by partition and horizon, as one Arrow table."""
        return self._horizons.statistics(newest)

    def roll_up(self, newest: datetime) -> None:
        """Roll up the hours whose last window is closed, and those that late samples changed."""
        self._hours.roll_up(newest)

    # -- snapshots -------------------------------------------------------------------------------

    def publish(
        self, batch_number: int, newest: datetime, now: datetime, counts: Counts
    ) -> Manifest | None:
        """Publish what the windows say up to `newest`; None while nobody is known to hold anything.

        Raises RefusedError when another writer has taken over.
        """
        placement = self._placements.newest
        if placement is None:
            return None
        snapshot_id = f"{self._epoch:06d}-{batch_number:08d}"
        table = self._horizons.statistics(newest)
        snapshot = self._snapshot(placement, snapshot_id, newest, now, table, counts)
        return write_snapshot(self._root, snapshot, writer_epoch=self._epoch)

    def _snapshot(
        self,
        placement: Placement,
        snapshot_id: str,
        newest: datetime,
        now: datetime,
        table: Any,
        counts: Counts,
    ) -> LoadSnapshot:
        count = len(placement)
        topic_of, topics = columns.to_codes(placement.table["topic"].dictionary_encode())
        horizon_of, horizons = columns.to_codes(table["horizon"].dictionary_encode())
        at = placement.rows_of(table)
        rates: dict[tuple[str, str, str], Float64] = {}
        growth = np.full(count, np.nan)
        quality = np.full(count, int(Quality.NONE), np.int8)
        method = np.zeros(count, np.int8)
        for horizon in HORIZONS:
            code = horizons.index(horizon) if horizon in horizons else -1
            here = (horizon_of == code) & (at >= 0)
            for rate in RATES:
                for statistic in STATISTICS:
                    column = columns.to_numpy(table[f"{rate}_{statistic}"])
                    rates[horizon, rate, statistic] = placement.laid(column[here], at[here])
            if horizon == "5m":
                quality[at[here]] = columns.to_numpy(table["quality"])[here]
                method[at[here]] = columns.to_numpy(table["method_worst"])[here]
            if horizon == "1h":
                growth = placement.laid(
                    columns.to_numpy(table["growth_bytes_per_s_avg"])[here], at[here]
                )
        start, sizes = columns.to_lists(placement.table["sizes"])
        _, replicas = columns.to_lists(placement.table["replicas"])
        leader = columns.to_numpy(placement.table["leader"])
        led = replicas == np.repeat(leader, np.diff(start))
        size = np.full(count, -1, np.int64)
        of = np.repeat(np.arange(count), np.diff(start))
        np.maximum.at(size, of, sizes)
        known = led & (sizes >= 0)
        size[of[known]] = sizes[known]
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
            growth_bytes_per_s=growth,
            quality=quality,
            method=method,
            brokers=placement.brokers(
                rates["5m", "in_bytes_per_s", "avg"], rates["5m", "out_bytes_per_s", "avg"]
            ),
            counts=counts,
            leader=leader,
        )

    # -- housekeeping ----------------------------------------------------------------------------

    def drop_partial(self, key: str) -> None:
        """Delete the partials of a batch whose windows have them and that Spark has committed."""
        self.partial_file(key).unlink(missing_ok=True)

    def retire(self, newest: datetime) -> None:
        """Delete windows of 8 days ago, hours of 90, and what only windows that change need."""
        self._hours.retire(newest)
        unchanging = floor(newest - TOO_LATE_AFTER)
        self._placements.retire(unchanging)
        self._thin(unchanging)
        oldest = f"date={(newest - KEPT):%Y-%m-%d}"
        for folder in layout.windows(self._root, self._cluster_id).glob("date=*"):
            if folder.name < oldest:
                shutil.rmtree(folder, ignore_errors=True)

    def _thin(self, unchanging: datetime) -> None:
        """Take the samples out of a few windows before `unchanging`; the next batch goes on."""
        since = self._thinned or unchanging - timedelta(days=1)
        left = window_files(self._root, self._cluster_id, since, unchanging)
        for path in left[:THINNED_A_BATCH]:
            thin(path)
        more = left[THINNED_A_BATCH:]
        self._thinned = layout.window_start(more[0]) if more else unchanging


def _strings(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]
