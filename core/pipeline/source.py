"""Where samples come from: which are new, and how they are read.

A stream says only what is new. A batch reads the samples itself: what a stream hands to its
batches has been made into rows one by one, all columns of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql import types as T

from core import paths
from core.load import load_paths as layout
from core.load import spool
from core.load.samples import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH = 360
"""An hour of polls."""
ROWS_PER_BATCH = 3_000_000
"""Both bound a batch after the pipeline was away."""

_TYPES = {
    "string": T.StringType(),
    "int8": T.ByteType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "double": T.DoubleType(),
    "bool": T.BooleanType(),
    "timestamp[us, UTC]": T.TimestampType(),
}

SCHEMA = T.StructType([T.StructField(c.name, _TYPES[c.type], c.nullable) for c in COLUMNS])


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a batch has to read: rows of SCHEMA with the `cluster` they are for and their `unit`."""

    rows: DataFrame
    units: tuple[str, ...] = ()


class Source(Protocol):
    """Where the samples of one job come from."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the stream of what is new."""
        ...

    def arrived(self, spark: SparkSession, batch: DataFrame) -> Arrived | None:
        """Return what is in a batch of the stream; None for nothing."""
        ...

    def settle(self, units: Iterable[str]) -> None:
        """Put away what batches have read that are committed for certain."""
        ...

    def sweep(self) -> int:
        """Take out of the way what cannot be read; return how much that was."""
        ...


class Spool:
    """The segments of one cluster, as its collector leaves them."""

    def __init__(self, root: Path, cluster_id: str) -> None:
        self._root = root
        self._cluster_id = cluster_id

    def stream(self, spark: SparkSession) -> DataFrame:
        spool.admit_segments(self._root, self._cluster_id)
        folder = layout.spool(self._root, self._cluster_id)
        paths.make_folder(folder)
        return (
            # Of these columns only the path is asked for, so no content is read.
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            # The folders by date and hour are for people and for retention, they are no columns.
            .option("recursiveFileLookup", "true")
            .option("maxFilesPerTrigger", files_per_batch(folder))
            .load(str(folder))
            .select("path")
        )

    def arrived(self, spark: SparkSession, batch: DataFrame) -> Arrived | None:
        # One may have been swept into quarantine since it was listed; the rest goes on.
        units = tuple(sorted(row.path for row in batch.collect() if _path(row.path).exists()))
        if not units:
            return None
        return Arrived(self._read(spark, [_path(unit) for unit in units]), units)

    def _read(self, spark: SparkSession, segments: Sequence[Path]) -> DataFrame:
        rows = spark.read.schema(SCHEMA).parquet(*map(str, segments))
        return rows.select(
            "*",
            F.lit(self._cluster_id).alias("cluster"),
            F.col("_metadata.file_name").alias("unit"),
        )

    def settle(self, units: Iterable[str]) -> None:
        for segment in map(_path, units):
            if segment.exists():
                spool.archive_segment(self._root, self._cluster_id, segment)
        spool.delete_expired(self._root, self._cluster_id)

    def sweep(self) -> int:
        return spool.quarantine_damaged(self._root, self._cluster_id)


def files_per_batch(folder: Path) -> int:
    """Return how many segments like the largest in the spool are a batch at most."""
    sizes = [(path.stat().st_size, path) for path in folder.glob("date=*/hour=*/*.parquet")]
    if not sizes:
        return FILES_PER_BATCH
    rows = pq.ParquetFile(max(sizes)[1]).metadata.num_rows
    return max(1, min(FILES_PER_BATCH, ROWS_PER_BATCH // max(1, int(rows))))


def _path(unit: str) -> Path:
    return Path(unit.removeprefix("file:"))
