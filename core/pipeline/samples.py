"""From the samples of a batch to one row a partition; pure functions from DataFrame to DataFrame.

A poll lies wholly in one unit (a segment, or a record of a topic) unless it was written twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.pipeline import moments
from core.pipeline.rates import KEY, SAMPLE, sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

POLL = ("cluster", "collector_id", "poll_id", "unit")


def polls(judged: DataFrame) -> DataFrame:
    """Return how many rows each poll has by window and reason, and when the newest was taken.

    `start` is when the window starts; it and `newest_at` are microseconds since the epoch.
    """
    start = F.col("at") - F.pmod("at", F.lit(moments.WINDOW))
    return judged.groupBy(*POLL, "reason", start.alias("start")).agg(
        F.count(F.lit(1)).alias("rows"), F.max("at").alias("newest_at")
    )


def counted(judged: DataFrame, fresh: DataFrame | None) -> DataFrame:
    """Return the rows that count: of polls in `fresh` (all where it is None), and not bad."""
    fine = judged.where(F.col("reason").isNull())
    return fine if fresh is None else fine.join(F.broadcast(fresh), [*POLL], "left_semi")


def by_partition(rows: DataFrame, newest: DataFrame) -> DataFrame:
    """Return each partition's leader samples, in order, and who held it in the newest poll.

    `newest` has `newest_at` of each cluster: when its newest poll was, this batch's or an earlier
    one. Of what a poll says twice the first counts; `repeated` is how many rows that leaves out.
    """
    then = F.col("at") == F.col("newest_at")
    replica = F.struct(F.col("broker_id").alias("broker"), F.col("size_bytes").alias("size"))
    whole = rows.join(F.broadcast(newest), "cluster", "left")
    found = whole.groupBy(*KEY).agg(
        F.max("topic").alias("topic"),
        F.max(F.when(then, F.col("at"))).alias("at"),
        F.max(F.when(then & F.col("is_leader"), F.col("broker_id"))).alias("leader"),
        F.collect_set(F.when(then, replica)).alias("replicas"),
        F.collect_set(F.when(F.col("is_leader"), sample())).alias("samples"),
        F.count(F.lit(1)).alias("rows"),
        F.collect_set(F.struct("collector_id", "poll_id", "broker_id")).alias("_each"),
    )
    return found.select(
        *KEY,
        "topic",
        "at",
        F.coalesce("leader", F.lit(-1)).alias("leader"),
        _first("replicas", "broker").alias("replicas"),
        _first("samples", "at").cast(f"array<{SAMPLE}>").alias("samples"),
        (F.col("rows") - F.size("_each")).cast("int").alias("repeated"),
    )


def _first(array: str, name: str) -> Column:
    """Return an array of structs in order, and of those with the same field `name` one."""
    ordered = F.sort_array(array)
    return F.when(F.size(array) < 2, F.col(array)).otherwise(
        F.filter(ordered, lambda one, i: (i == 0) | (one[name] != F.get(ordered, i - 1)[name]))
    )
