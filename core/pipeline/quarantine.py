"""Which samples cannot be, and why: they go to quarantine; pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.samples import UNIQUE_KEY, latest_sample_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CLOSED_AFTER = timedelta(minutes=2)
"""How long after its end a window's new samples count as late."""
TOO_LATE_AFTER = timedelta(hours=6)

NEEDED = (
    *UNIQUE_KEY,
    *("reason", "topic", "is_leader", "ts", "dt_ms", "end_offset", "size_bytes"),
    *("in_method", "flags"),
)
"""The columns of judged samples that counting and windows read, beside the measures."""


def judged(
    samples: DataFrame, *, cluster_id: str, now: datetime, newest: datetime | None
) -> DataFrame:
    """Add `reason`: why a row goes to quarantine; null: it does not.

    `newest` is the newest sample of all earlier batches: what is 6 hours older is too late.
    """
    ts = F.col("ts")
    oldest = datetime(1970, 1, 1, tzinfo=UTC) if newest is None else newest - TOO_LATE_AFTER
    last, first = _moments(latest_sample_time(now), oldest)
    rules: list[tuple[str, Column]] = [
        ("no_key", F.col("topic_id").isNull() | F.col("partition").isNull() | ts.isNull()),
        ("other_cluster", F.col("cluster_id") != F.lit(cluster_id)),
        ("future", ts > last),
        ("not_a_number", _any(F.isnan(F.col(c)) for c in ("in_bytes", "out_bytes"))),
        ("negative", (F.col("dt_ms") <= 0) | _any(F.col(c) < 0 for c in _NEVER_NEGATIVE)),
        ("infinite", _any(F.col(c) == float("inf") for c in ("in_bytes", "out_bytes"))),
        ("offsets_crossed", F.col("end_offset") < F.col("start_offset")),
        ("too_late", ts < first),
    ]
    reason = F.lit(None).cast("string")
    for name, wrong in reversed(rules):
        reason = F.when(wrong, F.lit(name)).otherwise(reason)
    return samples.withColumn("reason", reason)


def _moments(*moments: datetime) -> list[Column]:
    """Return moments that change from batch to batch as columns.

    Spark writes a plain literal into the code that it generates, and compiles that anew whenever
    it has changed: that takes longer than a large batch. An array is passed to the same code.
    """
    array = F.array(*map(F.lit, moments))
    # Nothing but a column keeps Spark from looking into the array as it plans.
    zero = F.col("partition").bitwiseAND(F.lit(0))
    return [F.get(array, zero + i) for i in range(len(moments))]


_NEVER_NEGATIVE = ("offset_delta", "size_bytes", "in_bytes", "out_bytes", "partition")


def _any(conditions: Iterable[Column]) -> Column:
    out = F.lit(False)
    for condition in conditions:
        out = out | F.coalesce(condition, F.lit(False))
    return out
