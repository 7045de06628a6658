"""From segments to a snapshot on Spark: right, complete, and exactly once."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from feeding import (
    CLUSTER,
    COLUMNS,
    NOW,
    START,
    Row,
    StillClock,
    batch_records,
    feed,
    messages,
    newest,
    percentile,
    random_polls,
    row,
    run,
    summed_up,
    window_of,
    window_rows,
    windows_by_hand,
)
from pyspark.errors import StreamingQueryException

from core.cluster.metadata import TopicPartition
from core.errors import RefusedError
from core.load import load_paths as layout
from core.load import windows
from core.load.load import Source
from core.load.snapshot.format import Counts, Quality
from core.load.snapshot.writer import claim_epoch
from core.pipeline import checkpoint, closing
from core.pipeline.job import Job, Published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def adds_up(counts: Counts) -> bool:
    return counts.read == counts.accepted + counts.duplicate + sum(counts.quarantined.values())


def same(found: float | None, expected: float | None) -> bool:
    if expected is None or found is None:
        return found is None and expected is None
    return bool(np.isclose(found, expected, rtol=1e-9))


def test_windows_and_snapshot_are_what_counting_by_hand_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    polls = random_polls(seed=7, polls=270)
    rows = [r for poll in polls for r in poll]
    half = len(polls) // 2
    feed(tmp_path, "a", [r for poll in polls[:half] for r in poll])
    run(spark, tmp_path)
    feed(tmp_path, "b", [r for poll in polls[half:] for r in poll])
    published = run(spark, tmp_path)

    by_hand = windows_by_hand(rows)
    found = {(r["partition"], r["window_start"]): r for r in window_rows(tmp_path)}
    assert found.keys() == by_hand.keys()
    for key, expected in by_hand.items():
        for rate in COLUMNS:
            for what in ("sum", "avg", "p95", "max"):
                assert same(found[key][f"{rate}_{what}"], expected[rate][what]), (key, rate, what)

    snapshot = newest(tmp_path)
    last = max(r["ts"] for r in rows)
    assert snapshot.source is Source.SPARK
    assert snapshot.window_end == last.replace(microsecond=last.microsecond // 1000 * 1000)
    assert snapshot.topics == ("t",)
    assert snapshot.partition.tolist() == [0, 1, 2]
    first_of_hour = window_of(last) - timedelta(minutes=55)
    for p in range(3):
        mine = [r for r in rows if r["partition"] == p]
        trailing = [r for r in mine if r["ts"] > last - timedelta(minutes=5)]
        hour = [r for r in mine if r["ts"] >= first_of_hour]
        for rate, column in COLUMNS.items():
            for horizon, members in (("5m", trailing), ("1h", hour), ("24h", mine)):
                expected = summed_up(members, column)
                if horizon != "5m":
                    means = windows_by_hand(members)
                    expected["p95"] = percentile(
                        (w[rate]["avg"] for w in means.values() if w[rate]["avg"] is not None), 0.95
                    )
                for what in ("avg", "p95", "max"):
                    value = float(snapshot.rate(rate, horizon, what)[p])
                    assert same(value, expected[what]), (p, rate, horizon, what)

    counts = snapshot.counts
    assert (counts.read, counts.accepted) == (len(rows), len(rows))
    assert published[-1].manifest is not None
    for p in range(3):
        ends = [r["end_offset"] for r in rows if r["partition"] == p and r["end_offset"]]
        forward = sum(
            r["messages_per_s_sum"] or 0 for r in window_rows(tmp_path) if r["partition"] == p
        )
        assert forward == ends[-1] - ends[0]


def test_brokers_and_history_come_with_the_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Row] = []
    for poll in range(40):
        rows += [row(poll), row(poll, broker_id=2, is_leader=False, dt_ms=None, in_bytes=None)]
    feed(tmp_path, "a", rows)
    run(spark, tmp_path)
    snapshot = newest(tmp_path)
    one, two = snapshot.brokers
    assert (one.broker, one.leaders, one.replicas) == (1, 1, 1)
    assert one.leader_in_bytes_per_s == 500.0
    assert one.out_bytes_per_s == 250.0 + 500.0
    assert (two.broker, two.leaders, two.follower_in_bytes_per_s) == (2, 0, 500.0)
    assert two.size_bytes == 50_000 + 5000 * 39
    assert snapshot.growth_bytes_per_s.tolist() == [500.0]
    assert snapshot.quality.tolist() == [Quality.FULL]
    of_partition = windows.read_history(tmp_path, CLUSTER, TopicPartition("t", 0), NOW)
    assert of_partition.starts.tolist() == [START.timestamp(), START.timestamp() + 300]
    assert of_partition.rates["in_bytes_per_s", "avg"].tolist() == [500.0, 500.0]
    of_broker = windows.read_history(tmp_path, CLUSTER, 1, NOW)
    assert of_broker.rates["in_bytes_per_s", "avg"].tolist() == [500.0, 500.0]


def test_a_windows_brokers_are_those_that_held_it_however_late_it_is_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    then, now = [row(poll) for poll in range(20)], [row(poll, broker_id=2) for poll in (60, 61)]
    feed(tmp_path, "a", [*then, *now])
    run(spark, tmp_path)
    feed(tmp_path, "b", [row(poll, poll_id=1000 + poll) for poll in (20, 21)])
    run(spark, tmp_path)
    for broker, start in ((1, START), (2, START + timedelta(minutes=10))):
        found = windows.read_history(tmp_path, CLUSTER, broker, NOW)
        assert found.starts.tolist() == [start.timestamp()]
        assert found.rates["in_bytes_per_s", "avg"].tolist() == [500.0]
    assert [b.broker for b in newest(tmp_path).brokers] == [2]


def test_an_average_over_an_outage_does_not_pass_for_five_minutes(
    spark: SparkSession, tmp_path: Path
) -> None:
    back = 360  # an hour of no polls
    rows = [row(0), row(1), row(back, dt_ms=10_000 * (back - 1))]
    feed(tmp_path, "a", [*rows, *(row(poll) for poll in range(back + 1, back + 13))])
    run(spark, tmp_path)
    assert newest(tmp_path).quality.tolist() == [Quality.ADJACENT]
    assert [r["quality"] for r in window_rows(tmp_path)] == [Quality.SINGLE, Quality.ADJACENT]
    feed(tmp_path, "b", [row(poll) for poll in range(back + 13, back + 32)])
    run(spark, tmp_path)
    assert newest(tmp_path).quality.tolist() == [Quality.FULL]
    found = [Quality.SINGLE, Quality.ADJACENT, Quality.SINGLE]
    assert [r["quality"] for r in window_rows(tmp_path)] == found


def test_bad_rows_are_quarantined_by_reason_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad: dict[str, list[Row]] = {
        "negative": [
            row(1, partition=1, in_bytes=-1.0),
            row(1, partition=2, dt_ms=0),
            row(1, partition=3, offset_delta=-5),
            row(1, partition=4, size_bytes=-7),
        ],
        "not_a_number": [row(1, partition=5, out_bytes=float("nan"))],
        "infinite": [row(1, partition=6, in_bytes=float("inf"))],
        "offsets_crossed": [row(1, partition=7, end_offset=5, start_offset=6)],
        "future": [row(1, partition=8, ts=NOW + timedelta(seconds=61))],
        "other_cluster": [row(1, partition=9, cluster_id="elsewhere")],
    }
    feed(tmp_path, "a", [row(1), *(r for rows in bad.values() for r in rows)])
    run(spark, tmp_path)
    counts = newest(tmp_path).counts
    assert counts.quarantined == {reason: len(rows) for reason, rows in sorted(bad.items())}
    assert counts.accepted == 1
    assert adds_up(counts)
    assert {r["partition"] for r in window_rows(tmp_path)} == {0}
    kept = spark.read.parquet(str(layout.quarantine(tmp_path, CLUSTER) / "rows" / "b=*"))
    assert {r.reason for r in kept.collect()} == bad.keys()


def test_duplicates_count_once_in_one_batch_and_across_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [row(poll) for poll in range(4)]
    feed(tmp_path, "a", rows)
    feed(tmp_path, "again", rows)
    run(spark, tmp_path)
    feed(tmp_path, "once-more", rows)
    feed(tmp_path, "new", [row(4)])
    run(spark, tmp_path)
    counts = newest(tmp_path).counts
    assert (counts.read, counts.accepted, counts.duplicate) == (13, 5, 8)
    assert adds_up(counts)
    assert messages(tmp_path) == 400


def test_late_samples_find_their_window_and_very_late_ones_quarantine(
    spark: SparkSession, tmp_path: Path
) -> None:
    far = 2400  # ten seconds apart: more than six hours on
    feed(tmp_path, "a", [row(0), row(1), row(far)])
    run(spark, tmp_path)
    late = [row(far - 100), row(far - 99)]
    feed(tmp_path, "b", [*late, row(2)])
    run(spark, tmp_path)
    counts = newest(tmp_path).counts
    assert counts.late == 2
    assert counts.quarantined == {"too_late": 1}
    assert adds_up(counts)
    assert messages(tmp_path) == 100 + 100 + 200


def test_a_segment_that_goes_bad_in_the_spool_is_quarantined_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad = feed(tmp_path, "a", [row(1)])
    feed(tmp_path, "b", [row(2)])
    bad.write_bytes(bad.read_bytes()[:-300])
    run(spark, tmp_path)
    counts = newest(tmp_path).counts
    assert counts.accepted == 1
    assert counts.quarantined == {"segment_truncated": 1}
    feed(tmp_path, "c", [row(3)])
    run(spark, tmp_path)
    assert messages(tmp_path) == 200


def test_a_batch_run_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(3)])
    run(spark, tmp_path)
    feed(tmp_path, "b", [row(poll) for poll in range(3, 6)])
    run(spark, tmp_path)
    before = (messages(tmp_path), newest(tmp_path).counts, len(batch_records(tmp_path)))
    commits = layout.checkpoint(tmp_path, CLUSTER) / "commits"
    for path in commits.glob("*1*"):
        path.unlink()
    assert [published.batch.read for published in run(spark, tmp_path, hours=9)] == [3]
    assert (messages(tmp_path), newest(tmp_path).counts, len(batch_records(tmp_path))) == before


def test_brokers_of_a_window_are_as_complete_as_its_partitions_after_a_crash(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(tmp_path, "a", [row(0), row(1)])
    run(spark, tmp_path)
    feed(tmp_path, "b", [row(2, in_bytes=15_000.0)])
    written: list[str] = []

    def only_once(name: str) -> None:
        work = getattr(closing, name)

        def replacement(*args: Any) -> None:
            if written:
                raise OSError(28, "No space left on device")
            written.append(name)
            work(*args)

        monkeypatch.setattr(closing, name, replacement)

    only_once("write_rows")
    only_once("write_brokers")
    with pytest.raises(StreamingQueryException):
        run(spark, tmp_path)
    monkeypatch.undo()
    run(spark, tmp_path)
    for of in (1, TopicPartition("t", 0)):
        found = windows.read_history(tmp_path, CLUSTER, of, NOW)
        assert found.rates["in_bytes_per_s", "avg"].tolist() == [1000.0]


def test_a_lost_checkpoint_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(3)])
    run(spark, tmp_path)
    shutil.rmtree(layout.checkpoint(tmp_path, CLUSTER))
    run(spark, tmp_path)
    feed(tmp_path, "b", [row(3)])
    run(spark, tmp_path)
    assert messages(tmp_path) == 300
    assert newest(tmp_path).counts.duplicate == 3


COMPACT_INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"


def test_a_checkpoint_does_not_grow_for_ever(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, polls = 500, 7
    monkeypatch.setattr(checkpoint, "LIMIT_BYTES", limit)
    lists = layout.checkpoint(tmp_path, CLUSTER) / "sources" / "0"
    told: list[Published] = []
    largest: list[int] = []

    def fed_on(published: Published) -> None:
        told.append(published)
        largest.append(max(path.stat().st_size for path in lists.glob("[0-9]*")))
        if len(told) < polls:
            feed(tmp_path, f"p{len(told):03d}", [row(len(told))])

    feed(tmp_path, "p000", [row(0)])
    spark.conf.set(COMPACT_INTERVAL, 3)  # the whole list is written in each third batch
    try:
        Job(spark, tmp_path, CLUSTER, StillClock(NOW), fed_on).run(0.3, lambda: len(told) < polls)
    finally:
        spark.conf.unset(COMPACT_INTERVAL)

    assert len({published.batch.key.split("-")[0] for published in told}) > 1
    # Without a bound the last list would name all 7; each name takes about 250 bytes.
    assert max(largest) < 2.5 * limit
    ids = [published.manifest.snapshot_id for published in told if published.manifest]
    assert ids == sorted(set(ids))
    assert len(ids) == polls
    counts = newest(tmp_path).counts
    assert (counts.read, counts.accepted, counts.duplicate) == (polls, polls, 0)
    assert messages(tmp_path) == 100 * (polls - 1)


def test_a_writer_that_was_taken_over_from_stops_before_it_publishes(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(1)])
    old = Job(spark, tmp_path, CLUSTER, StillClock(NOW))
    run(spark, tmp_path)
    feed(tmp_path, "b", [row(2)])
    claimed = claim_epoch(tmp_path, CLUSTER)
    with pytest.raises(RefusedError, match="Another writer"):
        old.once()
    assert newest(tmp_path).snapshot_id.startswith(f"{claimed - 1:06d}-")
    run(spark, tmp_path)
    assert messages(tmp_path) == 200
