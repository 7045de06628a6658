"""From samples to windows: pure functions from DataFrame to DataFrame.

Partials merge associatively: sums, maxima, first and last by time, and the samples themselves for
exact percentiles. A rate is always a total over the time it covers, never a mean of rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.samples import Flag
from core.pipeline.rates import (
    KEY,
    MEASURES,
    WINDOW_SECONDS,
    average,
    percentile,
    quality,
    summed,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAMPLE_SCHEMA = (
    "topic_id string, partition int, ts timestamp, topic string, broker_id int, dt_ms int, "
    "end_offset bigint, size_bytes bigint, in_method tinyint, flags int, "
    + ", ".join(f"{column} double" for column in MEASURES.values())
)
"""A leader's sample in a partial, as Spark types."""
SAMPLE_COLUMNS = [part.split()[0] for part in SAMPLE_SCHEMA.split(", ")]

RESETS = Flag.SIZE_SHRUNK | Flag.TRUNCATED | Flag.RECREATED | Flag.CLOCK_STEP


def partial(rows: DataFrame) -> DataFrame:
    """Return one mergeable row a partition and window, from leaders' samples that count."""
    dt = F.col("dt_ms")
    timed = dt.isNotNull()
    measured: list[Column] = []
    for rate, column in MEASURES.items():
        value = F.col(column).cast("double")
        known = timed & value.isNotNull()
        measured += [
            F.sum(F.when(known, value)).alias(f"{rate}_sum"),
            F.sum(F.when(known, dt.cast("long"))).alias(f"{rate}_ms"),
            F.max(F.when(known, value * 1000.0 / dt)).alias(f"{rate}_max"),
        ]
    sample = F.struct(
        F.unix_millis("ts").alias("at"),
        dt.alias("dt_ms"),
        *(F.col(column).cast("double").alias(rate) for rate, column in MEASURES.items()),
    )
    flags = F.col("flags")
    return (
        rows.withColumn("window_start", _window_start())
        .groupBy(*KEY, "window_start")
        .agg(
            F.count(F.lit(1)).alias("polls"),
            F.count(dt).alias("n"),
            F.coalesce(F.sum(dt.cast("long")), F.lit(0)).alias("covered_ms"),
            *measured,
            F.collect_list(F.when(timed, sample)).alias("samples"),
            F.min(_edge()).alias("first"),
            F.max(_edge()).alias("last"),
            F.max("in_method").alias("method_worst"),
            F.count(F.when(flags.bitwiseAND(int(RESETS)) != 0, True)).alias("resets"),
            F.count(F.when(flags.bitwiseAND(int(Flag.LEADER_CHANGED)) != 0, True)).alias(
                "leader_changes"
            ),
        )
    )


def _window_start() -> Column:
    seconds = F.unix_timestamp("ts")
    return F.timestamp_seconds(seconds - F.pmod(seconds, F.lit(WINDOW_SECONDS)))


def _edge() -> Column:
    return F.struct(
        F.unix_millis("ts").alias("at"),
        F.col("topic").alias("topic"),
        F.col("broker_id").alias("leader"),
        F.col("size_bytes").alias("size_bytes"),
        F.col("end_offset").alias("end_offset"),
    )


def merge(partials: DataFrame) -> DataFrame:
    """Return partials of the same partition and window as one; the order does not matter."""
    counts = ("polls", "n", "covered_ms", "resets", "leader_changes")
    measured = [column for rate in MEASURES for column in summed(rate)]
    return partials.groupBy(*KEY, "window_start").agg(
        *(F.sum(name).alias(name) for name in counts),
        *measured,
        F.flatten(F.collect_list("samples")).alias("samples"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.max("method_worst").alias("method_worst"),
    )


def finished(merged: DataFrame) -> DataFrame:
    """Add what readers of windows want: avg and p95 of each rate, last size and leader, quality."""
    rates = merged.withColumns({f"_{rate}": _sample_rates(rate) for rate in MEASURES})
    added: list[Column] = []
    for rate in MEASURES:
        added += [
            average(rate).alias(f"{rate}_avg"),
            percentile(F.col(f"_{rate}"), F.size(f"_{rate}")).alias(f"{rate}_p95"),
        ]
    return rates.select(
        *merged.columns,
        *added,
        F.col("last.topic").alias("topic"),
        F.coalesce(F.col("last.leader"), F.lit(-1)).alias("leader_last"),
        F.coalesce(F.col("last.size_bytes"), F.lit(-1)).alias("size_last"),
        quality(F.col("n"), F.col("covered_ms"), _inside()).alias("quality"),
    )


def _sample_rates(rate: str) -> Column:
    """Return a window's known rates, one a sample, in descending order."""
    each = F.transform("samples", lambda s: s[rate] * 1000.0 / s["dt_ms"])
    return F.sort_array(F.array_compact(each), asc=False)


def _inside() -> Column:
    """Return how much of a window's covered time lies in the window itself."""
    start = F.unix_millis("window_start")
    return F.aggregate(
        "samples",
        F.lit(0).cast("long"),
        lambda sum, s: sum + F.least(s["dt_ms"].cast("long"), s["at"] - start),
    )
