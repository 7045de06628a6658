"""What a snapshot says of 5 minutes, 1 hour and 24 hours, from window files and hour files.

The newest windows are read for each snapshot. What lies before changes each 5 minutes and is
kept in memory as one roll; the whole hours in it change once an hour and are kept as another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from core.load import layout
from core.load.windows import LENGTH, floor, window_files
from core.pipeline import hours, rolls
from core.pipeline.hours import Hours, floor_hour
from core.pipeline.rates import MEASURES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECENT = 3
"""Windows that may still change often."""
WINDOWS_OF = {"1h": 12, "24h": rolls.WINDOWS_A_DAY}

_SAMPLE = ", ".join(f"{rate}: double" for rate in MEASURES)
_WINDOW_SCHEMA = (
    "topic_id string, partition int, method_worst tinyint, "
    f"samples array<struct<at: bigint, dt_ms: int, {_SAMPLE}>>, "
    + ", ".join(f"{rate}_sum double, {rate}_ms bigint, {rate}_max double" for rate in MEASURES)
)
"""What horizons need of a window file, as Spark types."""


class Horizons:
    """The rolls of one cluster that are kept from one snapshot to the next."""

    def __init__(self, spark: SparkSession, root: Path, cluster_id: str, tier: Hours) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id
        self._tier = tier
        self._kept: dict[str, tuple[str, DataFrame]] = {}

    def statistics(self, newest: datetime) -> Any:
        """Return avg, p95 and max of each rate by partition and horizon, as one Arrow table."""
        last = floor(newest)
        recent_since = last - (RECENT - 1) * LENGTH
        filling = self._read(self._files(last - LENGTH, last + LENGTH), _WINDOW_SCHEMA)
        recent = self._read(self._files(recent_since, last + LENGTH), _WINDOW_SCHEMA)
        of_each = F.explode(F.array(*map(F.lit, WINDOWS_OF)))
        parts = [
            rolls.trailing(filling, newest).withColumn("horizon", F.lit("5m")),
            rolls.of_windows(recent).withColumn("horizon", of_each),
        ]
        for horizon, count in WINDOWS_OF.items():
            closed = self._closed(horizon, last - (count - 1) * LENGTH, recent_since)
            if closed is not None:
                parts.append(closed.withColumn("horizon", F.lit(horizon)))
        return rolls.statistics(rolls.merged(_union(parts), "horizon")).toArrow()

    def _closed(self, horizon: str, since: datetime, until: datetime) -> DataFrame | None:
        """Return the roll of what lies in [since, until); None of nothing."""
        whole = self._tier.whole(since, until)
        windows = tuple(
            path
            for path in self._files(since, until)
            if floor_hour(layout.window_start(path)) not in whole
        )
        paths = (*windows, *whole.values())
        if not paths:
            return None

        def roll() -> DataFrame:
            parts = []
            if windows:
                parts.append(rolls.of_windows(self._read(windows, _WINDOW_SCHEMA)))
            if whole:
                parts.append(self._of_hours(tuple(whole.values())))
            return rolls.trimmed(rolls.merged(_union(parts)))

        return self._keep(horizon, paths, roll)

    def _of_hours(self, paths: tuple[Path, ...]) -> DataFrame:
        def roll() -> DataFrame:
            rows = self._read(paths, hours.SCHEMA)
            return rolls.trimmed(rolls.merged(rolls.of_hours(rows)))

        return self._keep("hours", paths, roll)

    def _keep(self, name: str, paths: Sequence[Path], roll: Callable[[], DataFrame]) -> DataFrame:
        """Return `roll()`, or what it was when these files were last asked for."""
        stamp = ",".join(f"{path}:{path.stat().st_mtime_ns}" for path in paths)
        known = self._kept.get(name)
        if known is not None:
            if known[0] == stamp:
                return known[1]
            del self._kept[name]
            known[1].unpersist()
        # Spark takes files of the same names for the same data; the stamp tells them apart.
        marked = roll().withColumn("stamp", F.lit(stamp)).drop("stamp")
        rolled = marked.persist()
        self._kept[name] = (stamp, rolled)
        return rolled

    def _files(self, since: datetime, until: datetime) -> tuple[Path, ...]:
        return window_files(self._root, self._cluster_id, since, until)

    def _read(self, paths: Sequence[Path], schema: str) -> DataFrame:
        if not paths:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*map(str, paths))


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), parts)
