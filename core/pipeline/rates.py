"""What samples, windows and hours say of a partition's rates; pure functions on columns.

A rate is always a total over the time it covers, never a mean of rates. Percentiles are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.snapshot.format import RATES, Quality
from core.load.windows import LENGTH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY = ("cluster", "topic_id", "partition")
PERCENTILE = 0.95
LENGTH_MS = LENGTH.total_seconds() * 1000.0

MEASURES = {
    "messages_per_s": "offset_delta",
    "in_bytes_per_s": "in_bytes",
    "out_bytes_per_s": "out_bytes",
    "growth_bytes_per_s": "size_delta",
}
"""Each rate and the column of the sample it is made of."""

SAMPLE = "struct<at:bigint,dt_ms:int,leader:int,size_bytes:bigint,method:tinyint,{}>".format(
    ",".join(f"{rate}:double" for rate in MEASURES)
)
"""What is kept of a leader's sample: `at` in microseconds since the epoch, amounts by rate."""


def sample() -> Column:
    """Return what is kept of a row of samples."""
    return F.struct(
        "at",
        "dt_ms",
        F.col("broker_id").alias("leader"),
        "size_bytes",
        F.col("in_method").alias("method"),
        *(F.col(column).cast("double").alias(rate) for rate, column in MEASURES.items()),
    )


def with_figures(rows: DataFrame, begins_at: Column) -> DataFrame:
    """Add what each row's `samples` say, of the time from `begins_at` (microseconds) on.

    For each measure `…_sum`, `…_ms` and `…_avg`, for each rate `…_max` and `…_p95`, too; null where
    nothing is known. Then `n` intervals, `covered_ms`, `quality`, `method_worst`, and the last
    sample as `last`.
    """
    known = {rate: _sum(rate, "dt_ms").cast("long") for rate in MEASURES}
    sums = {rate: _sum(rate, rate) for rate in MEASURES}
    inside = F.aggregate(
        "samples",
        F.lit(0).cast("long"),
        lambda total, s: total + _or_0(F.least(s["dt_ms"], (s["at"] - F.col("_begins")) / 1000)),
    )
    counted = rows.withColumns(
        {
            "_begins": begins_at,
            **{f"{rate}_ms": ms for rate, ms in known.items()},
            **{f"{rate}_sum": total for rate, total in sums.items()},
            **{f"_{rate}": _descending(rate) for rate in RATES},
            "n": F.size(F.filter("samples", lambda s: s["dt_ms"].isNotNull())).cast("long"),
            "covered_ms": F.aggregate(
                "samples", F.lit(0).cast("long"), lambda total, s: total + _or_0(s["dt_ms"])
            ),
            "method_worst": F.array_max(F.col("samples.method")),
            "last": F.array_max("samples"),
        }
    ).withColumn("_inside", inside)
    figures: dict[str, Column] = {"quality": _quality(F.col("n"), F.col("covered_ms"))}
    for rate in MEASURES:
        total, ms = F.col(f"{rate}_sum"), F.col(f"{rate}_ms")
        figures |= {
            f"{rate}_sum": F.when(ms > 0, total),
            f"{rate}_avg": F.when(ms > 0, total * 1000.0 / ms),
        }
    for rate in RATES:
        ordered = F.col(f"_{rate}")
        figures |= {
            f"{rate}_max": F.get(ordered, F.lit(0)),
            f"{rate}_p95": percentile(ordered),
        }
    return counted.withColumns(figures).drop("_begins", "_inside", *(f"_{r}" for r in RATES))


def _sum(rate: str, name: str) -> Column:
    """Return the sum of a field over the samples that know a rate."""

    def added(total: Column, s: Column) -> Column:
        known = s["dt_ms"].isNotNull() & s[rate].isNotNull()
        return total + F.when(known, s[name]).otherwise(F.lit(0.0))

    return F.aggregate("samples", F.lit(0.0), added)


def _or_0(value: Column) -> Column:
    return F.coalesce(value.cast("long"), F.lit(0).cast("long"))


def _descending(rate: str) -> Column:
    each = F.transform("samples", lambda s: s[rate] * 1000.0 / s["dt_ms"])
    return F.sort_array(F.array_compact(each), asc=False)


def percentile(descending: Column) -> Column:
    """Return the exact 95th percentile of an array, interpolated as NumPy does; null of none."""
    at = (F.size(descending) - 1) * F.lit(PERCENTILE)
    low = F.floor(at)
    below = F.get(descending, (F.size(descending) - 1 - low).cast("int"))
    above = F.coalesce(F.get(descending, (F.size(descending) - 2 - low).cast("int")), below)
    return below + (above - below) * (at - low)


def _quality(n: Column, covered_ms: Column) -> Column:
    """Return `core.load.snapshot.format.Quality` of one window's length.

    An interval that began long before (the collector was away) tells of the time before too.
    """
    inside_ms = F.col("_inside")

    def at_least(share: float) -> Column:
        return (inside_ms >= share * LENGTH_MS) & (inside_ms >= share * covered_ms)

    return (
        F.when(n == 0, Quality.NONE.value)
        .when(at_least(0.9), Quality.FULL.value)
        .when(at_least(0.5), Quality.HALF.value)
        .when(covered_ms >= 0.9 * LENGTH_MS, Quality.ADJACENT.value)
        .otherwise(Quality.SINGLE.value)
    ).cast("byte")
