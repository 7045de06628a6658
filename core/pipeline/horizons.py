"""What a snapshot says of 5 minutes, 1 hour and 24 hours.

The newest samples and open windows are in memory. What lies before changes each 5 minutes: Spark
rolls up window files and hour files, and what comes of it is kept until they change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.load import Float64
from core.load.snapshot.format import RATES
from core.load.windows import LENGTH, window_files, window_floor
from core.pipeline import figures, hours, rolls
from core.pipeline.closing import Windows
from core.pipeline.hours import Hours, floor_hour
from core.pipeline.memory import Keys, Said, Sums
from core.pipeline.rates import MEASURES
from core.pipeline.samples import Int64

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOWS_OF = {"1h": 12, "24h": rolls.WINDOWS_A_DAY}
KEPT = 6
"""Rolls: two horizons of this window and the next, and two that late samples have changed."""

_WINDOW_SCHEMA = "topic_id string, partition int, " + ", ".join(
    f"{rate}_sum double, {rate}_ms bigint, {rate}_max double" for rate in MEASURES
)
"""What horizons need of a window file, as Spark types."""


@dataclass(frozen=True, eq=False)
class Roll:
    """What closed windows sum up to: for each measure one line, a column for each of `rows`.

    `means` has each rate's largest 5-minute means, in descending order.
    """

    rows: Int64
    total: Float64
    ms: Float64
    largest: Float64
    n: Float64
    means: Sequence[Float64]

    @classmethod
    def of(cls, table: Any, keys: Keys) -> Roll:
        """Return the roll in a table of `core.pipeline.rolls`."""

        def each(what: str) -> Float64:
            found = [columns.to_numpy(table[f"{rate}_{what}"]) for rate in MEASURES]
            return np.stack(found).astype(np.float64)

        # A sum of nothing is null, which is -1 in whole numbers.
        ms = np.maximum(each("ms"), 0)
        return cls(
            rows=keys.rows_of(table),
            total=np.where(ms > 0, each("sum"), 0.0),
            ms=ms,
            largest=each("max"),
            n=each("n"),
            means=[_square(table[f"{rate}_means"]) for rate in MEASURES],
        )


class Horizons:
    """The rolls of one cluster that are kept from one snapshot to the next."""

    def __init__(
        self, spark: SparkSession, root: Path, cluster_id: str, tier: Hours, open_: Windows
    ) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id
        self._tier = tier
        self._windows = open_
        self._keys = open_.keys
        self._rolls: dict[str, Roll] = {}
        self._of_whole_hours: tuple[str, DataFrame] | None = None

    def statistics(self, newest: datetime) -> dict[str, Said]:
        """Return what is said of each row of the windows' memory, by horizon."""
        last = window_floor(newest)
        closed = {horizon: self._closed(horizon, last) for horizon in WINDOWS_OF}
        count = len(self._windows.keys)
        cut = round((newest - LENGTH).timestamp() * 1000)
        until = round((last + LENGTH).timestamp() * 1000)
        out = {"5m": self._windows.recent.between(cut + 1, until, count, begins_ms=cut)}
        for horizon, roll in closed.items():
            since = last - (WINDOWS_OF[horizon] - 1) * LENGTH
            filling = [sums for start, sums in self._windows.open.items() if since <= start <= last]
            out[horizon] = Said(_rates(roll, filling, count), out["5m"].quality, out["5m"].method)
        return out

    def prepare(self, newest: datetime) -> None:
        """Roll up what the next snapshots will ask for, of this window and of the next."""
        for last in (window_floor(newest), window_floor(newest) + LENGTH):
            for horizon in WINDOWS_OF:
                self._closed(horizon, last)

    def _closed(self, horizon: str, last: datetime) -> Roll | None:
        """Return the roll of a horizon's windows up to `last` that are compacted; None of none."""
        if self._keys is not self._windows.keys:
            self._keys = self._windows.keys
            self._rolls.clear()
        since, until = last - (WINDOWS_OF[horizon] - 1) * LENGTH, last + LENGTH
        whole = self._tier.whole(since, until)
        windows = [
            path
            for path in window_files(self._root, self._cluster_id, since, until)
            if (start := layout.window_start(path)) not in self._windows.open
            and floor_hour(start) not in whole
        ]
        if not windows and not whole:
            return None
        stamp = _stamp([*windows, *whole.values()])
        if stamp not in self._rolls:
            parts = [rolls.of_windows(self._read(windows, _WINDOW_SCHEMA))] if windows else []
            if whole:
                parts.append(self._hours(tuple(whole.values())))
            table = rolls.trimmed(rolls.merged(_union(parts))).toArrow()
            for old in list(self._rolls)[: 1 - KEPT]:
                del self._rolls[old]
            self._rolls[stamp] = Roll.of(table, self._keys)
        return self._rolls[stamp]

    def _hours(self, paths: tuple[Path, ...]) -> DataFrame:
        """Return whole hours as one roll, kept in Spark until the hours are others."""
        stamp = _stamp(paths)
        if self._of_whole_hours is not None:
            if self._of_whole_hours[0] == stamp:
                return self._of_whole_hours[1]
            self._of_whole_hours[1].unpersist()
        rolled = rolls.trimmed(rolls.merged(rolls.of_hours(self._read(paths, hours.SCHEMA))))
        # Spark takes files of the same names for the same data; the stamp tells them apart.
        marked = rolled.withColumn("stamp", F.lit(stamp)).drop("stamp").persist()
        self._of_whole_hours = (stamp, marked)
        return marked

    def _read(self, paths: Sequence[Path], schema: str) -> DataFrame:
        return self._spark.read.schema(schema).parquet(*map(str, paths))


def _rates(
    roll: Roll | None, filling: Sequence[Sums], count: int
) -> dict[tuple[str, str], Float64]:
    """Return avg, p95 of 5-minute means, and max, of a roll and of windows that still fill."""
    rates: dict[tuple[str, str], Float64] = {}
    for i, rate in enumerate(MEASURES):
        total, ms, n = np.zeros((3, count))
        largest = np.full(count, np.nan)
        width = roll.means[i].shape[1] if roll is not None else 0
        means = np.full((count, width + len(filling)), np.nan)
        if roll is not None:
            total[roll.rows], ms[roll.rows], n[roll.rows] = roll.total[i], roll.ms[i], roll.n[i]
            largest[roll.rows] = roll.largest[i]
            means[roll.rows, :width] = roll.means[i]
        for k, sums in enumerate(filling):
            size = len(sums.n)
            total[:size] += sums.total[i]
            ms[:size] += sums.ms[i]
            mean = figures.average(sums.total[i], sums.ms[i])
            means[:size, width + k] = mean
            n[:size] += ~np.isnan(mean)
            largest[:size] = np.fmax(largest[:size], sums.largest[i])
        rates[rate, "avg"] = figures.average(total, ms)
        if rate in RATES:
            rates[rate, "p95"] = figures.percentile(figures.descending(means), n)
            rates[rate, "max"] = largest
    return rates


def _square(lists: Any) -> Float64:
    """Return lists as rows of the longest one's length, filled up with NaN."""
    start, values = columns.to_lists(lists)
    count = np.diff(start)
    out: Float64 = np.full((len(count), int(count.max(initial=0))), np.nan)
    at = np.arange(len(values)) - np.repeat(start[:-1], count)
    out[np.repeat(np.arange(len(count)), count), at] = values
    return out


def _stamp(paths: Sequence[Path]) -> str:
    return ",".join(f"{path}:{path.stat().st_mtime_ns}" for path in paths)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), parts)
