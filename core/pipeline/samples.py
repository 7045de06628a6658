"""From the samples of a batch to one row a partition; pure functions from DataFrame to DataFrame.

Samples that cannot be go to quarantine, with a reason. A poll lies in one unit (a segment), or in
parts of one each (records of a topic), unless it was written twice.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.load.samples import WINDOW_MICROS, to_micros
from core.load.windows import RETENTION
from core.pipeline.rates import KEY, SAMPLE, SAMPLED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    latest, oldest_of_new = _unfolded(latest_at), _unfolded(latest_at - OLDEST)
    rules = {
        "no_key": _join_or("{} IS NULL", "topic_id", "partition", "ts", "poll_id", "collector_id"),
        "other_cluster": "NOT cluster <=> cluster_id",
        "future": f"at > {latest}",
        "not_a_number": _join_or("isnan({})", "in_bytes", "out_bytes"),
        "negative": f"dt_ms <= 0 OR {_join_or('{} < 0', *_NEVER_NEGATIVE)}",
        "infinite": _join_or("{} = double('infinity')", "in_bytes", "out_bytes"),
        "offsets_crossed": "end_offset < start_offset",
        "too_late": f"at < coalesce(oldest_at, {oldest_of_new})",
    }
    cases = " ".join(f"WHEN {wrong} THEN '{reason}'" for reason, wrong in rules.items())
    timed = samples.withColumn("at", F.unix_micros("ts"))
    rows = timed.join(F.broadcast(oldest), "cluster", "left")
    return rows.selectExpr("*", f"CASE {cases} END AS reason")


def _unfolded(value: int) -> str:
    """Return a number that changes from batch to batch as a column.

    Spark writes a plain literal into the code that it generates, and compiles that anew whenever
    it has changed: that takes longer than a large batch. An array is passed to the same code.
    """
    # Nothing but a column keeps Spark from looking into the array as it plans.
    return f"get(array({value}L), coalesce(partition, 0) & 0)"


def _join_or(condition: str, *names: str) -> str:
    return " OR ".join(condition.format(name) for name in names)


def polls(judged: DataFrame) -> DataFrame:
    """Return how many rows each part of a poll has by window and reason, and when it was taken.

    `start` is when the window starts, `newest_at` is of the newest row, `whole_at` the same where
    the part is a poll's last: microseconds since the epoch, null where there is a reason.
    """
    # What bad rows say of anything may be anything: it must not make a row here for each of them.
    fine = "reason IS NULL"
    keys = {name: f"IF({fine}, {name}, NULL)" for name in ("collector_id", "poll_id", "part")}
    keys["start"] = f"IF({fine}, at - pmod(at, {WINDOW_MICROS}L), NULL)"
    return judged.groupBy(
        "cluster", "unit", "reason", *(F.expr(f"{key} AS {name}") for name, key in keys.items())
    ).agg(
        F.expr("count(1) AS rows"),
        F.expr(f"max(IF({fine}, at, NULL)) AS newest_at"),
        F.expr(f"max(IF({fine} AND is_last, at, NULL)) AS whole_at"),
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
    since = "at >= whole_at"
    partitions = (
        rows.join(F.broadcast(whole), "cluster", "left")
        .groupBy(*KEY)
        .agg(
            F.expr("max(topic) AS topic"),
            F.expr(f"max(IF({since}, at, NULL)) AS at"),
            F.expr(f"max(IF({since} AND is_leader, struct(at, broker_id), NULL)) AS _leads"),
            F.expr(f"collect_set(IF({since}, {_HELD}, NULL)) AS _held"),
            F.expr(f"collect_set(IF(is_leader, {SAMPLED}, NULL)) AS _samples"),
            F.expr("collect_set(struct(collector_id, poll_id, broker_id)) AS _each"),
            F.expr("count(1) AS rows"),
        )
    )
    # Sorted first: inside of what each element is compared with it would be done for each of them.
    ordered = partitions.withColumns({c: F.sort_array(c) for c in ("_held", "_samples")})
    held = f"filter({_first('_held', 'at', 'broker')}, r -> r.at = at)"
    return ordered.selectExpr(
        *KEY,
        "topic",
        "at",
        "coalesce(IF(_leads.at = at, _leads.broker_id, NULL), -1) AS leader",
        f"transform({held}, r -> struct(r.broker, r.size)) AS replicas",
        f"CAST({_first('_samples', 'at')} AS array<{SAMPLE}>) AS samples",
        "CAST(rows - size(_each) AS INT) AS repeated",
    )


_HELD = "struct(at, broker_id AS broker, size_bytes AS size)"


def _first(ordered: str, *names: str) -> str:
    """Return of structs in order those that differ from the one before in the fields `names`."""
    differs = (f"one.{name} != get({ordered}, i - 1).{name}" for name in names)
    return f"filter({ordered}, (one, i) -> i = 0 OR {' OR '.join(differs)})"
