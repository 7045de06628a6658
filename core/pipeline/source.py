"""What Spark reads: which segments of one cluster are new, and the samples in them.

The stream says only which files are new. A batch reads them itself: what a stream hands to its
batches has been made into rows one by one, all columns of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import types as T

from core import paths
from core.load import load_paths as layout
from core.load.samples import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH = 360
"""An hour of polls."""
ROWS_PER_BATCH = 3_000_000
"""Both bound a batch after the pipeline was away; its rows come to the driver."""

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


def new_segments(spark: SparkSession, root: Path, cluster_id: str) -> DataFrame:
    """Return the stream of one cluster's segments, as `path`."""
    folder = layout.spool(root, cluster_id)
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


def files_per_batch(folder: Path) -> int:
    """Return how many segments like the largest in the spool are a batch at most."""
    sizes = [(path.stat().st_size, path) for path in folder.glob("date=*/hour=*/*.parquet")]
    if not sizes:
        return FILES_PER_BATCH
    rows = pq.ParquetFile(max(sizes)[1]).metadata.num_rows
    return max(1, min(FILES_PER_BATCH, ROWS_PER_BATCH // max(1, int(rows))))


def paths_of(segments: DataFrame) -> list[Path]:
    """Return the files of a batch of `new_segments` that are still there."""
    found = (Path(str(row.path).removeprefix("file:")) for row in segments.collect())
    # One may have been swept into quarantine since it was listed; the rest goes on.
    return [path for path in found if path.exists()]


def read_samples(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """Return the samples in these segments."""
    if not paths:
        return spark.createDataFrame([], SCHEMA)
    return spark.read.schema(SCHEMA).parquet(*map(str, paths))
