"""Which samples count: those that cannot be, those that came late, those that came before; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.sample import UNIQUE_KEY
from core.load.windows import LENGTH
from core.pipeline.rates import MEASURES, WINDOW_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CLOSED_AFTER = timedelta(minutes=2)
"""How long after its end a window's new samples count as late."""
TOO_LATE_AFTER = timedelta(hours=6)
AHEAD = timedelta(seconds=60)
"""How far a collector's clock may be ahead."""

NEEDED = (
    *UNIQUE_KEY,
    *("file", "reason", "window_start", "late"),
    *("topic", "is_leader", "ts", "dt_ms", "end_offset", "size_bytes", "in_method", "flags"),
    *MEASURES.values(),
)
"""The columns of judged samples that counting and windows read."""


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
