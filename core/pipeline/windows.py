"""What is carried of each partition from batch to batch, and what that is summed up to; pure.

Carried are the samples of the last five minutes and of windows that are open, so that whatever is
said of them is exact and comes out the same when a batch is run again. An hour is what the last
twelve closed windows say, a day what the last 24 whole hours do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.samples import HOUR_MICROS, WINDOW_MICROS
from core.load.snapshot.format import RATES
from core.pipeline.rates import KEY, MEASURES, SAMPLE, percentile, with_figures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOUR_FIGURES = tuple(
    f"{rate}_1h_{statistic}" for rate in RATES for statistic in ("avg", "p95", "max")
)
GROWTH = "growth_bytes_per_s_1h_avg"
DAY_FIGURES = tuple(name.replace("_1h_", "_24h_") for name in HOUR_FIGURES)
HORIZON_FIGURES = (*HOUR_FIGURES, GROWTH, *DAY_FIGURES)

_PLACEMENT = "topic string, replicas array<struct<broker:int,size:bigint>>"
_KEY_COLUMNS = "cluster string, topic_id string, partition int"
STATE = (
    f"{_KEY_COLUMNS}, {_PLACEMENT}, at bigint, leader int, samples array<{SAMPLE}>, repeated int, "
    + ", ".join(f"{name} double" for name in HORIZON_FIGURES)
)
"""What is carried; `at` is when the partition was last seen, `repeated` of the last batch only."""
WINDOW = (
    f"{_KEY_COLUMNS}, {_PLACEMENT}, start bigint, samples array<{SAMPLE}>, "
    + ", ".join(f"{rate}_sum double, {rate}_ms bigint, {rate}_avg double" for rate in MEASURES)
    + ", "
    + ", ".join(f"{rate}_max double, {rate}_p95 double" for rate in RATES)
    + ", n bigint, covered_ms bigint, quality tinyint, method_worst tinyint, leader_last int, "
    "size_last bigint"
)
"""A window of a partition: who held it as it closed, its samples, and what they say."""


def carried(before: DataFrame, batch: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return what is carried on: `before`, with what a batch brought.

    `bounds` has for each cluster `newest_at`, and `keep_at`: samples before it are in closed
    windows and older than five minutes. A partition that has none left and was not seen since goes.
    """
    new = batch.selectExpr(*KEY, *(f"{c} AS _{c}" for c in batch.columns if c not in KEY))
    both = before.join(new, [*KEY], "full_outer").join(F.broadcast(bounds), "cluster", "left")
    nothing = f"CAST(array() AS array<{SAMPLE}>)"
    samples = f"concat(coalesce(samples, {nothing}), coalesce(_samples, {nothing}))"
    kept = both.selectExpr(
        *KEY,
        "coalesce(_topic, topic) AS topic",
        *(f"IF(_at IS NOT NULL, _{c}, {c}) AS {c}" for c in ("replicas", "at", "leader")),
        f"filter({samples}, s -> s.at BETWEEN keep_at AND newest_at) AS samples",
        "coalesce(_repeated, 0) AS repeated",
        *HORIZON_FIGURES,
        "keep_at",
        "newest_at",
    )
    is_kept = "coalesce(at BETWEEN keep_at AND newest_at, false)"
    return kept.where(f"{is_kept} OR size(samples) > 0").drop("keep_at", "newest_at")


def with_horizons(state: DataFrame, horizons: DataFrame) -> DataFrame:
    """Return what is carried with new figures of an hour, and of a day where there are some.

    `horizons` has HORIZON_FIGURES of all partitions of clusters of which windows have closed;
    `has_day` says whether those of the day are new, too.
    """
    new = horizons.selectExpr(
        *KEY,
        "true AS _has_hour",
        "has_day AS _has_day",
        *(f"{name} AS _{name}" for name in HORIZON_FIGURES),
    )
    return state.join(new, [*KEY], "left").selectExpr(
        *(c for c in state.columns if c not in HORIZON_FIGURES),
        *(
            f"IF({'_has_day' if name in DAY_FIGURES else '_has_hour'}, _{name}, {name}) AS {name}"
            for name in HORIZON_FIGURES
        ),
    )


def snapshot_rows(state: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return what a snapshot says of each partition that was seen in its cluster's newest poll.

    `bounds` has the clusters to publish, `since_at` of each, five minutes before its newest sample,
    and `whole_at`, when its newest whole poll was.
    Where no window has closed yet, an hour is what is known of five minutes; a day likewise.
    """
    here = (
        state.join(F.broadcast(bounds), "cluster")
        .where("at >= whole_at")
        .withColumn("samples", F.expr("filter(samples, s -> s.at > since_at)"))
    )
    figures = []
    for name in HOUR_FIGURES:
        now = name.replace("_1h_", "_")
        day = name.replace("_1h_", "_24h_")
        figures += [
            f"{now} AS {name.replace('_1h_', '_5m_')}",
            f"coalesce({name}, {now}) AS {name}",
            f"coalesce({day}, {name}, {now}) AS {day}",
        ]
    return with_figures(here, "since_at").selectExpr(
        "cluster",
        "topic",
        "partition",
        "leader",
        "replicas.broker AS replicas",
        "replicas.size AS sizes",
        *figures,
        f"coalesce({GROWTH}, growth_bytes_per_s_avg) AS growth_bytes_per_s",
        "quality",
        "coalesce(method_worst, CAST(0 AS TINYINT)) AS method",
        "repeated",
    )


def closed_windows(state: DataFrame, closing: DataFrame) -> DataFrame:
    """Return the windows (as WINDOW) that close: `closing` has `cluster` and `start` of each."""
    inside = f"s.at >= start AND s.at < start + {WINDOW_MICROS}L"
    each = state.join(F.broadcast(closing), "cluster").selectExpr(
        *KEY, "topic", "replicas", f"filter(samples, s -> {inside}) AS samples", "start"
    )
    return as_windows(each.where("size(samples) > 0"))


def whole_windows(parts: DataFrame, changed: DataFrame) -> DataFrame:
    """Return some closed windows (as WINDOW) as one row each, of whatever parts they are in.

    `changed` has `cluster` and `start` of each.
    """
    whole = (
        parts.join(F.broadcast(changed), ["cluster", "start"], "left_semi")
        .groupBy(*KEY, "start")
        .agg(
            F.max("topic").alias("topic"),
            F.max("replicas").alias("replicas"),
            F.flatten(F.collect_list("samples")).alias("samples"),
        )
    )
    return as_windows(whole)


def late_samples(batch: DataFrame, changed: DataFrame) -> DataFrame:
    """Return a batch's samples that came after their window had closed, by window."""
    at = F.col("one.at")
    none = F.lit(None).cast("array<struct<broker:int,size:bigint>>")
    return (
        batch.select(*KEY, "topic", F.explode("samples").alias("one"))
        .withColumn("start", at - F.pmod(at, F.lit(WINDOW_MICROS)))
        .join(F.broadcast(changed), ["cluster", "start"], "left_semi")
        .groupBy(*KEY, "start")
        .agg(F.max("topic").alias("topic"), F.collect_list("one").alias("samples"))
        .withColumn("replicas", none)
    )


def as_windows(rows: DataFrame) -> DataFrame:
    """Return rows with `samples` and `start` as windows, with all that is said of them."""
    names = [part.split()[0] for part in WINDOW.split(", ")]
    last = {
        "leader_last": "coalesce(last.leader, -1)",
        "size_last": "coalesce(last.size_bytes, -1L)",
    }
    rated = with_figures(rows, "start")
    return rated.selectExpr(*(f"{last.get(name, name)} AS {name}" for name in names))


# -- an hour and a day ----------------------------------------------------------------------------

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
    return (
        parts.groupBy(*KEY, "start")
        .agg(*_summed(MEASURES))
        .withColumns({f"{rate}_avg": F.expr(_average(rate)) for rate in RATES})
    )


def hours_of(windows: DataFrame) -> DataFrame:
    """Return windows as hours (HOUR), one row a partition and hour."""
    hour = F.expr(f"start - pmod(start, {HOUR_MICROS}L) AS hour")
    return windows.groupBy(*KEY, hour).agg(*_summed(RATES), *_averages("collect_list({}_avg)"))


def hour_figures(windows: DataFrame) -> DataFrame:
    """Return the figures of an hour from its windows, one row a partition."""
    rolled = windows.groupBy(*KEY).agg(*_summed(MEASURES), *_averages("collect_list({}_avg)"))
    growth = f"{_average('growth_bytes_per_s')} AS {GROWTH}"
    return _ordered(rolled).selectExpr(*KEY, *_statistics_sql("1h"), growth)


def day_figures(hours: DataFrame) -> DataFrame:
    """Return the figures of a day from its hours, one row a partition."""
    rolled = hours.groupBy(*KEY).agg(*_summed(RATES), *_averages("flatten(collect_list({}_means))"))
    return _ordered(rolled).selectExpr(*KEY, *_statistics_sql("24h"))


def horizons(partitions: DataFrame, hour: DataFrame, day: DataFrame | None) -> DataFrame:
    """Return the figures of an hour, and where `has_day` is 1 of a day, as HORIZONS.

    `partitions` are all of the clusters of which windows have closed, with `has_day`. Where there
    is no window in the last hour, say after an outage, the hour is unknown.
    """
    both = partitions.join(hour, [*KEY], "left")
    if day is None:
        both = both.selectExpr("*", *(f"CAST(NULL AS DOUBLE) AS {name}" for name in DAY_FIGURES))
    else:
        both = both.join(day, [*KEY], "left")
    return both.selectExpr(*KEY, *HORIZON_FIGURES, "has_day = 1 AS has_day")


def _ordered(rolled: DataFrame) -> DataFrame:
    """Return rolled rows with their means in descending order, each sorted once."""
    means = (f"{rate}_means" for rate in RATES)
    return rolled.withColumns({name: F.sort_array(name, asc=False) for name in means})


def _statistics_sql(horizon: str) -> list[str]:
    figures = []
    for rate in RATES:
        name = f"{rate}_{horizon}"
        figures += [
            f"{_average(rate)} AS {name}_avg",
            f"{percentile(f'{rate}_means')} AS {name}_p95",
            f"{rate}_max AS {name}_max",
        ]
    return figures


def _average(rate: str) -> str:
    return f"try_divide({rate}_sum * 1000D, {rate}_ms)"


def _averages(gathered: str) -> list[Column]:
    return [F.expr(f"{gathered.format(rate)} AS {rate}_means") for rate in RATES]


def _summed(measures: Iterable[str]) -> list[Column]:
    parts = [("sum", f"{measure}_{part}") for measure in measures for part in ("sum", "ms")]
    parts += [("max", f"{rate}_max") for rate in RATES]
    return [F.expr(f"{how}({name}) AS {name}") for how, name in parts]
