"""What a rate is made of and what is said of one: columns that windows and rolls share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.snapshot.format import Quality
from core.load.windows import LENGTH

if TYPE_CHECKING:
    from pyspark.sql import Column

KEY = ("topic_id", "partition")
WINDOW_SECONDS = int(LENGTH.total_seconds())
PERCENTILE = 0.95

MEASURES = {
    "messages_per_s": "offset_delta",
    "in_bytes_per_s": "in_bytes",
    "out_bytes_per_s": "out_bytes",
    "growth_bytes_per_s": "size_delta",
}
"""Each rate and the column of the sample it is made of."""


def average(rate: str) -> Column:
    """Return one rate's amount over its time, per second."""
    return F.try_divide(F.col(f"{rate}_sum") * 1000.0, F.col(f"{rate}_ms"))


def summed(rate: str) -> list[Column]:
    """Return one rate's amount, time and maximum over rows that have them already."""
    return [
        F.sum(f"{rate}_sum").alias(f"{rate}_sum"),
        F.sum(f"{rate}_ms").alias(f"{rate}_ms"),
        F.max(f"{rate}_max").alias(f"{rate}_max"),
    ]


def percentile(largest: Column, n: Column) -> Column:
    """Return the exact 95th percentile of `n` values, interpolated as NumPy does; null of none.

    `largest` are as many of them as it takes, in descending order. Let it be a column, not an
    expression: Spark would sort anew for each time that it is named.
    """
    at = (n - 1) * F.lit(PERCENTILE)
    low = F.floor(at)
    below = F.get(largest, (n - 1 - low).cast("int"))
    above = F.coalesce(F.get(largest, (n - 2 - low).cast("int")), below)
    return below + (above - below) * (at - low)


def quality(n: Column, covered_ms: Column, inside_ms: Column) -> Column:
    """Return `core.load.snapshot.format.Quality` of one window's length.

    An interval that began long before (the collector was away) tells of the time before too.
    """
    length = WINDOW_SECONDS * 1000.0

    def at_least(share: float) -> Column:
        return (inside_ms >= share * length) & (inside_ms >= share * covered_ms)

    return (
        F.when(n == 0, Quality.NONE.value)
        .when(at_least(0.9), Quality.FULL.value)
        .when(at_least(0.5), Quality.HALF.value)
        .when(covered_ms >= 0.9 * length, Quality.ADJACENT.value)
        .otherwise(Quality.SINGLE.value)
    ).cast("byte")
