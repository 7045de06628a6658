"""Where samples come from: which are new, and how they are read.

A stream says only what is new. A batch reads the samples itself: what a stream hands to its
batches has been made into rows one by one, all columns of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
MANY = 30
"""As many times that of many clusters."""
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
    """What a batch has to read."""

    rows: DataFrame
    """Samples: the columns of SCHEMA, and where each came from: the `cluster` it is for, the `unit`
    that has it, which `part` of its poll that is, and whether it `is_last` of them."""
    units: tuple[str, ...] = ()
    """What to put away once the batch is committed."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Of a topic which record comes next, by partition."""
    bad: DataFrame | None = None
    """Records that cannot be read: `cluster`, `reason`, and the record."""
    release: Callable[[], object] = lambda: None
    """Is to be called when everything has been read."""


class Source(Protocol):
    """Where the samples of one job come from."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the stream of what is new."""
        ...

    def arrived(
        self, spark: SparkSession, batch: DataFrame, offsets: Mapping[str, int]
    ) -> Arrived | None:
        """Return what is in a batch of the stream, None for nothing.

        `offsets` are those of all batches before.
        """
        ...

    def settle(self, units: Iterable[str]) -> None:
        """Put away what batches have read that are committed for certain."""
        ...

    def sweep(self) -> int:
        """Take out of the way what cannot be read; return how much that was."""
        ...


class Spool:
    """The segments that collectors leave on this machine: of one cluster, or of all."""

    def __init__(self, root: Path, cluster_id: str | None = None) -> None:
        self._root = root
        self._cluster_id = cluster_id

    def stream(self, spark: SparkSession) -> DataFrame:
        for cluster_id in self._cluster_ids():
            spool.admit_segments(self._root, cluster_id)
        folder = self._folder()
        paths.make_folder(folder)
        return (
            # Of these columns only the path is asked for, so no content is read.
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            # The folders by date and hour are for people and for retention, they are no columns.
            .option("recursiveFileLookup", "true")
            .option("maxFilesPerTrigger", files_per_batch(folder, many=self._cluster_id is None))
            .load(f"file://{folder.absolute()}")
            .select("path")
        )

    def arrived(
        self, spark: SparkSession, batch: DataFrame, offsets: Mapping[str, int]
    ) -> Arrived | None:
        # One may have been swept into quarantine since it was listed; the rest goes on.
        units = tuple(sorted(row.path for row in batch.collect() if _path(row.path).exists()))
        if not units:
            return None
        rows = spark.read.schema(SCHEMA).parquet(*units)
        where = F.regexp_extract(F.col("_metadata.file_path"), "cluster=([^/]+)/date=", 1)
        from_it = rows.select(
            "*",
            (where if self._cluster_id is None else F.lit(self._cluster_id)).alias("cluster"),
            F.col("_metadata.file_name").alias("unit"),
            F.lit(0).alias("part"),
            F.lit(True).alias("is_last"),
        )
        return Arrived(from_it, units)

    def settle(self, units: Iterable[str]) -> None:
        for segment in map(_path, units):
            if segment.exists():
                spool.archive_segment(self._root, _cluster_of(segment), segment)

    def sweep(self) -> int:
        return sum(spool.quarantine_damaged(self._root, c) for c in self._cluster_ids())

    def _folder(self) -> Path:
        if self._cluster_id is None:
            return layout.spools(self._root)
        return layout.spool(self._root, self._cluster_id)

    def _cluster_ids(self) -> list[str]:
        if self._cluster_id is not None:
            return [self._cluster_id]
        return [path.name.removeprefix("cluster=") for path in self._folder().glob("cluster=*")]


def files_per_batch(folder: Path, *, many: bool = False) -> int:
    """Return how many segments like the largest in the spool are a batch at most."""
    files = FILES_PER_BATCH * (MANY if many else 1)
    sizes = [(path.stat().st_size, path) for path in folder.rglob("hour=*/*.parquet")]
    if not sizes:
        return files
    rows = pq.ParquetFile(max(sizes)[1]).metadata.num_rows
    return max(1, min(files, ROWS_PER_BATCH // max(1, int(rows))))


def _cluster_of(segment: Path) -> str:
    """Return the cluster in whose spool a segment lies."""
    return segment.parents[2].name.removeprefix("cluster=")


def _path(unit: str) -> Path:
    return Path(unit.removeprefix("file:"))
