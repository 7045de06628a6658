"""From the samples of a batch to one row a partition; pure functions from DataFrame to DataFrame.

Samples that cannot be go to quarantine, with a reason. A poll lies in one unit (a segment), or in
parts of one each (records of a topic), unless it was written twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.samples import WINDOW_MICROS, to_micros
from core.load.windows import RETENTION
from core.pipeline.rates import KEY, SAMPLE, sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOO_LATE_AFTER = timedelta(hours=6)
"""How much older than a cluster's newest sample one may be."""
OLDEST = to_micros(RETENTION)
"""How old the first samples of a cluster may be: as old as windows are kept."""

_NEVER_NEGATIVE = ("offset_delta", "size_bytes", "in_bytes", "out_bytes", "partition")

PART = ("cluster", "collector_id", "poll_id", "part", "unit")


def judged(samples: DataFrame, oldest: DataFrame, latest_at: int) -> DataFrame:
    """Add `reason`: why a row goes to quarantine, null where it does not; and `at`.

    `samples` have the columns of `core.pipeline.source.SCHEMA`, and the `cluster` they came for.
    No sample may be of a time after `latest_at`, nor before `oldest_at` of its cluster in
    `oldest`, nor of a cluster that is not there from before OLDEST: microseconds since the epoch,
    as `at`.
    """
    rules: list[tuple[str, Column]] = [
        (
            "no_key",
            _any(F.col(c).isNull() for c in ("topic_id", "partition", "ts", "poll_id"))
            | F.col("collector_id").isNull(),
        ),
        ("other_cluster", ~F.col("cluster").eqNullSafe(F.col("cluster_id"))),
        ("future", F.col("at") > _unfolded(latest_at)),
        ("not_a_number", _any(F.isnan(F.col(c)) for c in ("in_bytes", "out_bytes"))),
        ("negative", (F.col("dt_ms") <= 0) | _any(F.col(c) < 0 for c in _NEVER_NEGATIVE)),
        ("infinite", _any(F.col(c) == float("inf") for c in ("in_bytes", "out_bytes"))),
        ("offsets_crossed", F.col("end_offset") < F.col("start_offset")),
        ("too_late", F.col("at") < F.coalesce("oldest_at", _unfolded(latest_at - OLDEST))),
    ]
    reason = F.lit(None).cast("string")
    for name, wrong in reversed(rules):
        reason = F.when(wrong, F.lit(name)).otherwise(reason)
    timed = samples.withColumn("at", F.unix_micros("ts"))
    return timed.join(F.broadcast(oldest), "cluster", "left").withColumn("reason", reason)


def _unfolded(value: int) -> Column:
    """Return a number that changes from batch to batch as a column.

    Spark writes a plain literal into the code that it generates, and compiles that anew whenever
    it has changed: that takes longer than a large batch. An array is passed to the same code.
    """
    # Nothing but a column keeps Spark from looking into the array as it plans.
    zero = F.coalesce(F.col("partition"), F.lit(0)).bitwiseAND(F.lit(0))
    return F.get(F.array(F.lit(value).cast("long")), zero)


def _any(conditions: Iterable[Column]) -> Column:
    out = F.lit(False)
    for condition in conditions:
        out = out | F.coalesce(condition, F.lit(False))
    return out


def polls(judged: DataFrame) -> DataFrame:
    """Return how many rows each part of a poll has by window and reason, and when it was taken.

    `start` is when the window starts, `newest_at` is of the newest row, `whole_at` the same where
    the part is a poll's last: microseconds since the epoch, null where there is a reason.
    """
    # What bad rows say of anything may be anything: it must not make a row here for each of them.
    fine = F.col("reason").isNull()
    start = F.when(fine, F.col("at") - F.pmod("at", F.lit(WINDOW_MICROS)))
    poll = (F.when(fine, F.col(name)).alias(name) for name in ("collector_id", "poll_id", "part"))
    return judged.groupBy("cluster", *poll, "unit", "reason", start.alias("start")).agg(
        F.count(F.lit(1)).alias("rows"),
        F.max(F.when(fine, F.col("at"))).alias("newest_at"),
        F.max(F.when(fine & F.col("is_last"), F.col("at"))).alias("whole_at"),
    )


def counted(judged: DataFrame, fresh: DataFrame | None) -> DataFrame:
    """Return the rows that count: of parts in `fresh` (all where it is None), and not bad."""
    fine = judged.where(F.col("reason").isNull())
    return fine if fresh is None else fine.join(F.broadcast(fresh), [*PART], "left_semi")


def by_partition(rows: DataFrame, whole: DataFrame) -> DataFrame:
    """Return each partition's leader samples, in order, and who held it in its newest poll.

    `whole` has `whole_at` of each cluster, when its newest whole poll was, of this batch or an
    earlier one; of a partition that is in none since then nobody is said to hold it. Of what a poll
    says twice the first counts; `repeated` is how many rows that leaves out.
    """
    since = F.col("at") >= F.col("whole_at")
    broker, size = F.col("broker_id").alias("broker"), F.col("size_bytes").alias("size")
    found = (
        rows.join(F.broadcast(whole), "cluster", "left")
        .groupBy(*KEY)
        .agg(
            F.max("topic").alias("topic"),
            F.max(F.when(since, F.col("at"))).alias("at"),
            F.max(F.when(since & F.col("is_leader"), F.struct("at", broker))).alias("leader"),
            F.collect_set(F.when(since, F.struct("at", broker, size))).alias("replicas"),
            F.collect_set(F.when(F.col("is_leader"), sample())).alias("samples"),
            F.count(F.lit(1)).alias("rows"),
            F.collect_set(F.struct("collector_id", "poll_id", "broker_id")).alias("_each"),
        )
    )
    newest = F.filter(_first("replicas", "at", "broker"), lambda r: r["at"] == F.col("at"))
    leads = F.when(F.col("leader.at") == F.col("at"), F.col("leader.broker"))
    return found.select(
        *KEY,
        "topic",
        "at",
        F.coalesce(leads, F.lit(-1)).alias("leader"),
        F.transform(newest, lambda r: F.struct(r["broker"], r["size"])).alias("replicas"),
        _first("samples", "at").cast(f"array<{SAMPLE}>").alias("samples"),
        (F.col("rows") - F.size("_each")).cast("int").alias("repeated"),
    )


def _first(array: str, *names: str) -> Column:
    """Return an array of structs in order, and of those with the same fields `names` one."""

    def differs(one: Column, i: Column) -> Column:
        before = F.get(ordered, i - 1)
        return reduce(or_, (one[name] != before[name] for name in names), i == 0)

    ordered = F.sort_array(array)
    return F.when(F.size(array) < 2, F.col(array)).otherwise(F.filter(ordered, differs))
