"""From windows to an hour's figures, from hours to a day's; pure functions on DataFrames.

An hour is what the last twelve closed windows say, a day what the last 24 whole hours do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.snapshot.format import RATES
from core.pipeline import moments
from core.pipeline.rates import KEY, MEASURES, percentile
from core.pipeline.windows import DAY_FIGURES, GROWTH, HORIZON_FIGURES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


HOUR = "cluster string, topic_id string, partition int, hour bigint, " + ", ".join(
    f"{rate}_sum double, {rate}_ms bigint, {rate}_max double, {rate}_means array<double>"
    for rate in RATES
)
"""A partition's hour: totals of its windows, and their means for percentiles."""
HORIZONS = (
    "cluster string, topic_id string, partition int, "
    + ", ".join(f"{name} double" for name in HORIZON_FIGURES)
    + ", has_day boolean"
)
"""What has been rolled up: the figures of an hour, and where `has_day` of a day."""


def one_a_window(parts: DataFrame) -> DataFrame:
    """Return each window once, where late samples have made a part of its own."""
    return parts.groupBy(*KEY, "start").agg(
        *_summed(tuple(MEASURES)), *(_mean(F.sum(f"{r}_sum"), F.sum(f"{r}_ms"), r) for r in RATES)
    )


def hours_of(windows: DataFrame) -> DataFrame:
    """Return windows as hours (HOUR), one row a partition and hour."""
    hour = F.col("start") - F.pmod("start", F.lit(moments.HOUR))
    return windows.groupBy(*KEY, hour.alias("hour")).agg(
        *_summed(RATES), *(F.collect_list(f"{rate}_avg").alias(f"{rate}_means") for rate in RATES)
    )


def hour_figures(windows: DataFrame) -> DataFrame:
    """Return the figures of an hour from its windows, one row a partition."""
    rolled = windows.groupBy(*KEY).agg(
        *_summed(tuple(MEASURES)),
        *(F.collect_list(f"{rate}_avg").alias(f"{rate}_means") for rate in RATES),
    )
    growth = _average("growth_bytes_per_s").alias(GROWTH)
    return _ordered(rolled).select(*KEY, *_figures("1h"), growth)


def day_figures(hours: DataFrame) -> DataFrame:
    """Return the figures of a day from its hours, one row a partition."""
    rolled = hours.groupBy(*KEY).agg(
        *_summed(RATES),
        *(F.flatten(F.collect_list(f"{rate}_means")).alias(f"{rate}_means") for rate in RATES),
    )
    return _ordered(rolled).select(*KEY, *_figures("24h"))


def horizons(partitions: DataFrame, hour: DataFrame, day: DataFrame | None) -> DataFrame:
    """Return the figures of an hour, and where `has_day` is 1 of a day, as HORIZONS.

    `partitions` are all of the clusters of which windows have closed, with `has_day`. Where there
    is no window in the last hour, say after an outage, the hour is unknown.
    """
    both = partitions.join(hour, [*KEY], "left")
    if day is None:
        both = both.withColumns({name: F.lit(None).cast("double") for name in DAY_FIGURES})
    else:
        both = both.join(day, [*KEY], "left")
    has_day = (F.col("has_day") == 1).alias("has_day")
    return both.select(*KEY, *HORIZON_FIGURES, has_day)


def _ordered(rolled: DataFrame) -> DataFrame:
    """Return rolled rows with their means in descending order, each sorted once."""
    means = (f"{rate}_means" for rate in RATES)
    return rolled.withColumns({name: F.sort_array(name, asc=False) for name in means})


def _figures(horizon: str) -> list[Column]:
    figures: list[Column] = []
    for rate in RATES:
        name = f"{rate}_{horizon}"
        figures += [
            _average(rate).alias(f"{name}_avg"),
            percentile(F.col(f"{rate}_means")).alias(f"{name}_p95"),
            F.col(f"{rate}_max").alias(f"{name}_max"),
        ]
    return figures


def _average(rate: str) -> Column:
    return F.try_divide(F.col(f"{rate}_sum") * 1000.0, F.col(f"{rate}_ms"))


def _mean(total: Column, ms: Column, rate: str) -> Column:
    return F.try_divide(total * 1000.0, ms).alias(f"{rate}_avg")


def _summed(rates: tuple[str, ...]) -> list[Column]:
    return [
        how(f"{rate}_{part}").alias(f"{rate}_{part}")
        for rate in rates
        for how, part in ((F.sum, "sum"), (F.sum, "ms"), (F.max, "max"))
    ]
