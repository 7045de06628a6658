"""From samples to windows to horizons: pure functions from DataFrame to DataFrame.

Partials merge associatively: sums, maxima, first and last by time, and the samples themselves for
exact percentiles. A rate is always a total over the time it covers, never a mean of rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.sample import UNIQUE_KEY, Flag
from core.load.snapshot import Quality
from core.load.windows import LENGTH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY = ("topic_id", "partition")
WINDOW_SECONDS = int(LENGTH.total_seconds())
CLOSED_AFTER = timedelta(minutes=2)
"""How long after its end a window's new samples count as late."""
TOO_LATE_AFTER = timedelta(hours=6)
AHEAD = timedelta(seconds=60)
"""How far a collector's clock may be ahead."""

MEASURES = {
    "messages_per_s": "offset_delta",
    "in_bytes_per_s": "in_bytes",
    "out_bytes_per_s": "out_bytes",
    "growth_bytes_per_s": "size_delta",
}
"""Each rate and the column of the sample it is made of."""

RESETS = Flag.SIZE_SHRUNK | Flag.TRUNCATED | Flag.RECREATED | Flag.CLOCK_STEP


def judged(
    samples: DataFrame, *, cluster_id: str, now: datetime, newest: datetime | None
) -> DataFrame:
    """Add `reason`, why a row goes to quarantine (null: it does not), `window_start` and `late`.

    `newest` is the newest sample of all earlier batches: what is 6 hours older is too late.
    """
    ts = F.col("ts")
    rules: list[tuple[str, Column]] = [
        ("no_key", F.col("topic_id").isNull() | F.col("partition").isNull() | ts.isNull()),
        ("other_cluster", F.col("cluster_id") != F.lit(cluster_id)),
        ("future", ts > F.lit(now + AHEAD)),
        ("not_a_number", _any(F.isnan(F.col(c)) for c in ("in_bytes", "out_bytes"))),
        ("negative", (F.col("dt_ms") <= 0) | _any(F.col(c) < 0 for c in _NEVER_NEGATIVE)),
        ("infinite", _any(F.col(c) == float("inf") for c in ("in_bytes", "out_bytes"))),
        ("offsets_crossed", F.col("end_offset") < F.col("start_offset")),
    ]
    late = F.lit(False)
    if newest is not None:
        rules.append(("too_late", ts < F.lit(newest - TOO_LATE_AFTER)))
        late = _window_start() < F.lit(newest - CLOSED_AFTER - LENGTH)
    reason = F.lit(None).cast("string")
    for name, wrong in reversed(rules):
        reason = F.when(wrong, F.lit(name)).otherwise(reason)
    return samples.select(
        "*", reason.alias("reason"), _window_start().alias("window_start"), late.alias("late")
    )


_NEVER_NEGATIVE = ("offset_delta", "size_bytes", "in_bytes", "out_bytes", "partition")


def _any(conditions: Iterable[Column]) -> Column:
    out = F.lit(False)
    for condition in conditions:
        out = out | F.coalesce(condition, F.lit(False))
    return out


def _window_start() -> Column:
    seconds = F.unix_timestamp("ts")
    return F.timestamp_seconds(seconds - F.pmod(seconds, F.lit(WINDOW_SECONDS)))


def tally(rows: DataFrame) -> DataFrame:
    """Return for each file, poll, verdict and window how many rows there are, how many late.

    `newest` and `window_start` are microseconds since the epoch, null where `ts` is.
    """
    return rows.groupBy(
        "file",
        "collector_id",
        "poll_id",
        "reason",
        F.unix_micros("window_start").alias("window_start"),
    ).agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.col("late").cast("long")).alias("late"),
        F.max(F.unix_micros("ts")).alias("newest"),
    )


def accepted(rows: DataFrame, seen_polls: Sequence[tuple[str, int]]) -> DataFrame:
    """Return the rows to count: without those of polls seen in earlier batches, each key once."""
    kept = rows.where(F.col("reason").isNull())
    for collector_id, poll_id in seen_polls:
        kept = kept.where((F.col("collector_id") != collector_id) | (F.col("poll_id") != poll_id))
    return kept.dropDuplicates(list(UNIQUE_KEY))


def partial(rows: DataFrame) -> DataFrame:
    """Return one mergeable row a partition and window; leaders' rows carry the traffic."""
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
        rows.where("is_leader")
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
    summed = ("polls", "n", "covered_ms", "resets", "leader_changes")
    measured: list[Column] = []
    for rate in MEASURES:
        measured += _summed(rate)
    return partials.groupBy(*KEY, "window_start").agg(
        *(F.sum(name).alias(name) for name in summed),
        *measured,
        F.flatten(F.collect_list("samples")).alias("samples"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.max("method_worst").alias("method_worst"),
    )


def _summed(rate: str) -> list[Column]:
    """Return one rate's amount, time and maximum over rows that have them already."""
    return [
        F.sum(f"{rate}_sum").alias(f"{rate}_sum"),
        F.sum(f"{rate}_ms").alias(f"{rate}_ms"),
        F.max(f"{rate}_max").alias(f"{rate}_max"),
    ]


def finished(merged: DataFrame) -> DataFrame:
    """Add what readers of windows want: avg and p95 of each rate, last size and leader, quality."""
    added: list[Column] = []
    for rate in MEASURES:
        added += [
            _average(rate).alias(f"{rate}_avg"),
            _percentile(_sample_rates(rate), 0.95).alias(f"{rate}_p95"),
        ]
    return merged.select(
        "*",
        *added,
        F.col("last.topic").alias("topic"),
        F.coalesce(F.col("last.leader"), F.lit(-1)).alias("leader_last"),
        F.coalesce(F.col("last.size_bytes"), F.lit(-1)).alias("size_last"),
        _quality(F.col("n"), F.col("covered_ms"), _inside()).alias("quality"),
    )


def _inside() -> Column:
    """Return how much of a window's covered time lies in the window itself."""
    start = F.unix_millis("window_start")
    return F.aggregate(
        "samples",
        F.lit(0).cast("long"),
        lambda sum, s: sum + F.least(s["dt_ms"].cast("long"), s["at"] - start),
    )


def _quality(n: Column, covered_ms: Column, inside_ms: Column) -> Column:
    """Return `core.load.snapshot.Quality` of one window's length.

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


def trailing(rows: DataFrame, newest: datetime) -> DataFrame:
    """Return the 5 minutes up to `newest` as a roll, from the samples of the last windows."""
    since = round((newest - LENGTH).timestamp() * 1000)
    each = rows.select(*KEY, "method_worst", F.explode("samples").alias("s")).where(
        F.col("s.at") > since
    )
    dt = F.col("s.dt_ms").cast("long")
    measured: list[Column] = []
    for rate in MEASURES:
        value = F.col(f"s.{rate}")
        known = value.isNotNull()
        measured += [
            F.sum(value).alias(f"{rate}_sum"),
            F.sum(F.when(known, dt)).alias(f"{rate}_ms"),
            F.max(value * 1000.0 / dt).alias(f"{rate}_max"),
            F.collect_list(value * 1000.0 / dt).alias(f"{rate}_means"),
        ]
    return each.groupBy(*KEY).agg(
        *measured,
        _quality(
            F.count(F.lit(1)), F.sum(dt), F.sum(F.least(dt, F.col("s.at") - F.lit(since)))
        ).alias("quality"),
        F.max("method_worst").alias("method_worst"),
    )


def roll(rows: DataFrame) -> DataFrame:
    """Return windows of each partition as one roll, their means kept for the percentile."""
    measured: list[Column] = []
    for rate in MEASURES:
        measured += [*_summed(rate), F.collect_list(_average(rate)).alias(f"{rate}_means")]
    return rows.groupBy(*KEY).agg(
        *measured,
        F.lit(None).cast("byte").alias("quality"),
        F.max("method_worst").alias("method_worst"),
    )


def merge_rolls(rolls: DataFrame) -> DataFrame:
    """Return rolls of the same partition and horizon as one."""
    measured: list[Column] = []
    for rate in MEASURES:
        means = F.flatten(F.collect_list(f"{rate}_means"))
        measured += [*_summed(rate), means.alias(f"{rate}_means")]
    return rolls.groupBy(*KEY, "horizon").agg(
        *measured,
        F.max("quality").alias("quality"),
        F.max("method_worst").alias("method_worst"),
    )


def statistics(rolls: DataFrame) -> DataFrame:
    """Return avg, p95 and max of each rate; quality is of the 5 minutes alone."""
    out: list[Column] = []
    for rate in MEASURES:
        out += [
            _average(rate).alias(f"{rate}_avg"),
            _percentile(F.col(f"{rate}_means"), 0.95).alias(f"{rate}_p95"),
            F.col(f"{rate}_max").alias(f"{rate}_max"),
        ]
    return rolls.select(*KEY, "horizon", *out, "quality", "method_worst")


def placement(rows: DataFrame, moments: Sequence[int]) -> DataFrame:
    """Return who held what in some polls: leader, replicas and their sizes by broker.

    `moments` and the column `at` are microseconds since the epoch.
    """
    at = F.unix_micros("ts")
    replica = F.struct(
        F.col("broker_id").alias("broker"), F.coalesce("size_bytes", F.lit(-1)).alias("size")
    )
    held = (
        rows.where(at.isin(list(moments)))
        .groupBy(*KEY, at.alias("at"))
        .agg(
            F.max("topic").alias("topic"),
            F.coalesce(F.max(F.when(F.col("is_leader"), F.col("broker_id"))), F.lit(-1)).alias(
                "leader"
            ),
            F.array_sort(F.collect_set(replica)).alias("held"),
        )
    )
    return held.select(
        *KEY,
        "at",
        "topic",
        "leader",
        F.col("held.broker").alias("replicas"),
        F.col("held.size").alias("sizes"),
    ).orderBy("topic", "partition")


def _average(rate: str) -> Column:
    return F.try_divide(F.col(f"{rate}_sum") * 1000.0, F.col(f"{rate}_ms"))


def _sample_rates(rate: str) -> Column:
    known = F.filter("samples", lambda s: s[rate].isNotNull())
    return F.transform(known, lambda s: s[rate] * 1000.0 / s["dt_ms"])


def _percentile(values: Column, q: float) -> Column:
    """Return the exact percentile, interpolated as NumPy does; null of an empty array."""
    ordered = F.array_sort(values)
    at = (F.size(values) - 1) * F.lit(q)
    low = F.floor(at).cast("int")
    below = F.get(ordered, low)
    above = F.coalesce(F.get(ordered, low + 1), below)
    return F.when(F.size(values) > 0, below + (above - below) * (at - low))
