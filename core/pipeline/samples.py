"""From the samples of a batch to one row a partition; pure functions from DataFrame to DataFrame.

A poll lies in one unit (a segment), or in parts of one each (records of a topic), unless it was
written twice.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.pipeline import moments
from core.pipeline.rates import KEY, SAMPLE, sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PART = ("cluster", "collector_id", "poll_id", "part", "unit")


def polls(judged: DataFrame) -> DataFrame:
    """Return how many rows each part of a poll has by window and reason, and when it was taken.

    `start` is when the window starts, `newest_at` is of the newest row, `whole_at` the same where
    the part is a poll's last: microseconds since the epoch, null where there is a reason.
    """
    # What bad rows say of anything may be anything: it must not make a row here for each of them.
    fine = F.col("reason").isNull()
    start = F.when(fine, F.col("at") - F.pmod("at", F.lit(moments.WINDOW)))
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
