"""The tables of a job: Parquet below its folder, a part of each for a batch that wrote one.

A batch that is run again writes the same parts again. Which parts are in use the ledger says; what
a batch left that did not end is overwritten or deleted.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from core.pipeline import windows
from core.pipeline.ledger import Carried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE, WINDOWS, HOURS, HORIZONS = "state", "windows", "hours", "horizons"


class Tables:
    """Reads and writes the parts of one job's tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def write(self, table: str, part: str, rows: DataFrame) -> None:
        """Write a part, replacing what was there."""
        rows.write.mode("overwrite").parquet(self._uri(table, part), compression="lz4")

    def read(self, table: str, parts: Sequence[str], schema: str) -> DataFrame:
        """Return the rows of these parts, none of none."""
        if not parts:
            # Made of a list it would take Python workers to say that there is nothing.
            fields = StructType.fromDDL(schema)
            nothing = (F.lit(None).cast(f.dataType).alias(f.name) for f in fields)
            return self._spark.range(0).select(*nothing)
        # What is missing here is damage, and not a segment that was swept away.
        read = self._spark.read.schema(schema).option("ignoreMissingFiles", "false")
        return read.parquet(*(self._uri(table, part) for part in parts))

    def state(self, carried: Carried) -> DataFrame:
        """Return what is carried of each partition, with what has been rolled up since."""
        parts = [] if carried.state is None else [carried.state]
        state = self.read(STATE, parts, windows.STATE)
        if carried.horizons is None:
            return state
        rolled = self.read(HORIZONS, [carried.horizons], windows.HORIZONS)
        return windows.with_horizons(state, rolled)

    def has(self, table: str, part: str) -> bool:
        """Return whether a part is there, whole."""
        return (self._part(table, part) / "_SUCCESS").exists()

    def retain(self, table: str, parts: Collection[str]) -> None:
        """Delete the other parts of a table."""
        kept = {self._part(table, part).name for part in parts}
        for folder in (self._folder / table).glob("b=*"):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def small(self, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> DataFrame:
        """Return a table of a few rows: each column's Arrow type by its name, and its values."""
        kinds = {"string": pa.string(), "long": pa.int64()}
        arrays = {name: pa.array(values, kinds[kind]) for name, (kind, values) in columns.items()}
        return self._spark.createDataFrame(pa.table(arrays))

    def of_clusters(self, clusters: Iterable[str], **numbers: Sequence[int | None]) -> DataFrame:
        """Return a table of a few numbers for each cluster."""
        columns = {name: ("long", values) for name, values in numbers.items()}
        return self.small({"cluster": ("string", list(clusters)), **columns})

    def of_windows(self, pairs: Sequence[tuple[str, int]]) -> DataFrame:
        """Return a table of windows: each one's `cluster` and `start`."""
        return self.of_clusters([c for c, _ in pairs], start=[start for _, start in pairs])

    def _uri(self, table: str, part: str) -> str:
        # Of this machine or mounted, whatever the cluster's own file system is.
        return f"file://{self._part(table, part).absolute()}"

    def _part(self, table: str, part: str) -> Path:
        return self._folder / table / f"b={part}"
