"""The hour tier: closed 5-minute windows rolled up into one file an hour, kept for 90 days.

An hour's file notes which window files it was made of. Where late samples have changed one, the
hour is rolled up again; where the windows are gone, it is what is known of that hour.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from core import files
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.snapshot.format import RATES
from core.load.windows import LENGTH, read_metadata, window_files
from core.load.windows import RETENTION as WINDOWS_KEPT
from core.pipeline.quarantine import CLOSED_AFTER
from core.pipeline.rates import KEY, summed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMAT = "trimtab.hour/1"
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
KEPT = timedelta(days=90)
ROWS_AT_ONCE = 1_200_000
"""Rows of windows that one job reads, where one hour has not more: bounds its memory."""

Hour = tuple[datetime, Sequence[Path]]
"""When an hour starts, and the files of its windows."""

SCHEMA = "topic_id string, partition int, " + ", ".join(
    f"{rate}_sum double, {rate}_ms bigint, {rate}_max double, {rate}_means array<float>"
    for rate in RATES
)
"""What horizons need of an hour file, as Spark types."""
WINDOW_SCHEMA = (
    "topic_id string, partition int, window_start timestamp, method_worst tinyint, "
    "topic string, leader_last int, size_last bigint, n bigint, covered_ms bigint, "
    + ", ".join(
        f"{rate}_sum double, {rate}_ms bigint, {rate}_max double, {rate}_avg double"
        for rate in RATES
    )
)


def rolled_up(rows: DataFrame) -> DataFrame:
    """Return windows as one row a partition and hour; `hour` is when it starts.

    `…_means` are the averages of its 12 windows in their order, null where one is unknown.
    """
    slot = F.floor(F.minute("window_start") / F.lit(LENGTH // timedelta(minutes=1)))
    measured: list[Column] = []
    for rate in RATES:
        means = [
            F.max(F.when(slot == i, F.col(f"{rate}_avg").cast("float")))
            for i in range(HOUR // LENGTH)
        ]
        measured += [*summed(rate), F.array(*means).alias(f"{rate}_means")]
    last = F.max(F.struct("window_start", "topic", "leader_last", "size_last"))
    hours = rows.groupBy(*KEY, F.date_trunc("hour", "window_start").alias("hour")).agg(
        *measured,
        last.alias("last"),
        F.sum("n").alias("n"),
        F.sum("covered_ms").alias("covered_ms"),
        F.max("method_worst").alias("method_worst"),
    )
    return hours.select("*", "last.topic", "last.leader_last", "last.size_last").drop("last")


class Hours:
    """The hour files of one cluster; one process writes them."""

    def __init__(self, spark: SparkSession, root: Path, cluster_id: str) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id
        self._seen: datetime | None = None
        self._older: list[datetime] = []

    def roll_up(self, newest: datetime) -> None:
        """Roll up the closed hours whose windows are not in their files.

        Of those that have been left from more than a day ago (by an earlier version, say) one:
        a batch must not take long.
        """
        since = floor_hour(newest - DAY)
        if self._seen is None:
            self._older = sorted(self._windows(newest - WINDOWS_KEPT, since))
        else:
            since = min(since, floor_hour(self._seen))
        self._seen = newest
        windows = self._windows(since, floor_hour(newest - CLOSED_AFTER))
        for start in self._older[-1:]:
            windows |= self._windows(start, start + HOUR)
        del self._older[-1:]
        due = [(start, at) for start, at in sorted(windows.items()) if not self._holds(start, at)]
        for some in at_once(due):
            self._roll_up(some)

    def whole(self, since: datetime, until: datetime) -> dict[datetime, Path]:
        """Return by start the files of hours in [since, until) that hold what the windows do."""
        return {
            start: layout.hour_file(self._root, self._cluster_id, start)
            for start, paths in self._windows(since, until).items()
            if since <= start and start + HOUR <= until and self._holds(start, paths)
        }

    def retire(self, newest: datetime) -> None:
        """Delete hours older than 90 days."""
        oldest = f"date={(newest - KEPT):%Y-%m-%d}"
        for folder in layout.hours(self._root, self._cluster_id).glob("date=*"):
            if folder.name < oldest:
                shutil.rmtree(folder, ignore_errors=True)

    def _windows(self, since: datetime, until: datetime) -> dict[datetime, list[Path]]:
        """Return by hour the files of windows that start in [since, until)."""
        out: dict[datetime, list[Path]] = {}
        for path in window_files(self._root, self._cluster_id, since, until):
            out.setdefault(floor_hour(layout.window_start(path)), []).append(path)
        return out

    def _holds(self, start: datetime, windows: Sequence[Path]) -> bool:
        path = layout.hour_file(self._root, self._cluster_id, start)
        return path.exists() and read_metadata(path).get("windows") == _stamp(windows)

    def _roll_up(self, hours: Sequence[Hour]) -> None:
        # Looked at first: a window that changes meanwhile makes the hour one to roll up again.
        stamps = {start: _stamp(windows) for start, windows in hours}
        paths = [str(path) for _, windows in hours for path in windows]
        table = rolled_up(self._spark.read.schema(WINDOW_SCHEMA).parquet(*paths)).toArrow()
        hour_of = columns.to_numpy(table["hour"])
        table = table.drop_columns(["hour"])
        for start, stamp in stamps.items():
            mine = np.flatnonzero(hour_of == round(start.timestamp() * 1e6))
            part = table.take(columns.number_array(mine, pa.int64()))
            marked = part.replace_schema_metadata({"format": FORMAT, "windows": stamp})
            path = layout.hour_file(self._root, self._cluster_id, start)
            files.write_whole(path, partial(_write, marked))


def _write(table: Any, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")


def at_once(hours: Iterable[Hour]) -> Iterator[list[Hour]]:
    """Return hours in parts, each small enough to be rolled up as one job; an hour is one part."""
    part: list[Hour] = []
    rows = 0
    for hour in hours:
        more = sum(pq.ParquetFile(path).metadata.num_rows for path in hour[1])
        if part and rows + more > ROWS_AT_ONCE:
            yield part
            part, rows = [], 0
        part.append(hour)
        rows += more
    if part:
        yield part


def floor_hour(moment: datetime) -> datetime:
    """Return the start of the hour that `moment` lies in."""
    return moment.replace(minute=0, second=0, microsecond=0)


def _stamp(windows: Sequence[Path]) -> str:
    """Return what tells whether one of these files has been written again."""
    return ",".join(f"{path.stem}:{path.stat().st_mtime_ns}" for path in windows)
