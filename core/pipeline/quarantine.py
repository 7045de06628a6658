"""Which samples cannot be, and why: they go to quarantine; pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.windows import RETENTION
from core.pipeline.moments import micros

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOO_LATE_AFTER = timedelta(hours=6)
"""How much older than a cluster's newest sample one may be."""
OLDEST = micros(RETENTION)
"""How old the first samples of a cluster may be: as old as windows are kept."""

_NEVER_NEGATIVE = ("offset_delta", "size_bytes", "in_bytes", "out_bytes", "partition")


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
