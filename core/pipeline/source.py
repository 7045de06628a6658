"""What Spark reads: the spooled segments of one cluster, in the sample's schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from core.load import layout
from core.load.sample import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH = 360
"""An hour of polls: bounds a batch after the pipeline was away."""

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


def read_spool(spark: SparkSession, root: Path, cluster_id: str) -> DataFrame:
    """Return the stream of one cluster's samples, with the `file` that each came from."""
    folder = layout.spool(root, cluster_id)
    folder.mkdir(parents=True, exist_ok=True)
    return (
        spark.readStream.schema(SCHEMA)
        # The folders by date and hour are for people and for retention, they are no columns.
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .parquet(str(folder))
        .select("*", F.col("_metadata.file_path").alias("file"))
    )
