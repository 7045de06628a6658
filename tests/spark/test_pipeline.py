"""From segments to a snapshot on Spark: right, complete, and exactly once."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

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
    closed,
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

from core.cluster.metadata import TopicPartition
from core.errors import DocumentError, RefusedError, TrimtabError
from core.load import load_paths as layout
from core.load import windows
from core.load.load import Source
from core.load.snapshot.format import Counts, Quality
from core.pipeline import job
from core.pipeline.job import Job
from core.pipeline.publish import Published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def adds_up(counts: Counts) -> bool:
    return counts.read == counts.accepted + counts.duplicate + sum(counts.quarantined.values())


def same(actual: float | None, expected: float | None) -> bool:
    if expected is None or actual is None:
        return actual is None and expected is None
    return bool(np.isclose(actual, expected, rtol=1e-9))


def test_windows_and_snapshot_equal_those_counted_by_hand(
    spark: SparkSession, tmp_path: Path
) -> None:
    polls = random_polls(seed=7, polls=270)
    rows = [r for poll in polls for r in poll]
    half = len(polls) // 2
    feed(tmp_path, "a", [r for poll in polls[:half] for r in poll])
    run(spark, tmp_path)
    feed(tmp_path, "b", [r for poll in polls[half:] for r in poll])
    published = run(spark, tmp_path)

    last = max(r["ts"] for r in rows)
    by_hand = {key: of for key, of in windows_by_hand(rows).items() if closed(key[1], last)}
    windows_by_key = {(r["partition"], r["window_start"]): r for r in window_rows(tmp_path)}
    assert windows_by_key.keys() == by_hand.keys()
    for key, expected in by_hand.items():
        for rate in COLUMNS:
            for what in ("sum", "avg", "p95", "max"):
                assert same(windows_by_key[key][f"{rate}_{what}"], expected[rate][what]), (
                    key,
                    rate,
                    what,
                )

    snapshot = newest(tmp_path)
    assert snapshot.source is Source.SPARK
    assert snapshot.window_end == last.replace(microsecond=last.microsecond // 1000 * 1000)
    assert snapshot.topics == ("t",)
    assert snapshot.partition.tolist() == [0, 1, 2]
    for p in range(3):
        mine = [r for r in rows if r["partition"] == p]
        trailing = [r for r in mine if r["ts"] > last - timedelta(minutes=5)]
        whole = [r for r in mine if closed(window_of(r["ts"]), last)]
        for rate, column in COLUMNS.items():
            hour = summed_up(whole, column)
            means = [w[rate]["avg"] for key, w in by_hand.items() if key[0] == p]
            hour["p95"] = percentile((mean for mean in means if mean is not None), 0.95)
            # No hour of the clock is over: a day is what is known of one hour.
            for horizon, expected in (
                ("5m", summed_up(trailing, column)),
                ("1h", hour),
                ("24h", hour),
            ):
                for what in ("avg", "p95", "max"):
                    value = float(snapshot.rate(rate, horizon, what)[p])
                    assert same(value, expected[what]), (p, rate, horizon, what)

    counts = snapshot.counts
    assert (counts.read, counts.accepted) == (len(rows), len(rows))
    assert published[-1].snapshot is not None
    ends = [
        [r["end_offset"] for r in rows if r["partition"] == p and r["end_offset"]] for p in range(3)
    ]
    assert messages(tmp_path) == sum(end[-1] - end[0] for end in ends)


def test_broker_loads_and_history_are_published_with_the_snapshot(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: list[Row] = []
    for poll in range(40):
        rows += [row(poll), row(poll, broker_id=2, is_leader=False, dt_ms=None, in_bytes=None)]
    feed(tmp_path, "a", rows)
    run(spark, tmp_path)
    snapshot = newest(tmp_path)
    leader, two = snapshot.brokers
    assert (leader.broker, leader.leaders, leader.replicas) == (1, 1, 1)
    assert leader.leader_in_bytes_per_s == 500.0
    assert leader.out_bytes_per_s == 250.0 + 500.0
    assert (two.broker, two.leaders, two.follower_in_bytes_per_s) == (2, 0, 500.0)
    assert two.size_bytes == 50_000 + 5000 * 39
    assert snapshot.growth_bytes_per_s.tolist() == [500.0]
    assert snapshot.quality.tolist() == [Quality.FULL]
    of_partition = windows.read_history(tmp_path, CLUSTER, TopicPartition("t", 0), NOW)
    assert of_partition.starts.tolist() == [START.timestamp(), START.timestamp() + 300]
    assert of_partition.rates["in_bytes_per_s", "avg"].tolist() == [500.0, 500.0]
    of_broker = windows.read_history(tmp_path, CLUSTER, 1, NOW)
    assert of_broker.rates["in_bytes_per_s", "avg"].tolist() == [500.0, 500.0]


def test_late_counted_window_is_attributed_to_brokers_that_held_it_at_its_close(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(31)])
    run(spark, tmp_path)
    feed(tmp_path, "b", [row(poll, broker_id=2) for poll in (60, 61)])
    run(spark, tmp_path)
    feed(tmp_path, "c", [row(poll, poll_id=1000 + poll) for poll in (20, 21)])
    run(spark, tmp_path)
    first = {b: windows.read_history(tmp_path, CLUSTER, b, NOW) for b in (1, 2)}
    assert first[1].starts.tolist()[0] == START.timestamp()
    assert first[1].rates["in_bytes_per_s", "avg"].tolist()[0] == 500.0
    assert START.timestamp() not in first[2].starts
    assert [b.broker for b in newest(tmp_path).brokers] == [2]


def test_average_over_an_outage_is_not_marked_as_full_quality(
    spark: SparkSession, tmp_path: Path
) -> None:
    back = 360  # an hour of no polls
    rows = [row(0), row(1), row(back, dt_ms=10_000 * (back - 1))]
    feed(tmp_path, "a", [*rows, *(row(poll) for poll in range(back + 1, back + 13))])
    run(spark, tmp_path)
    assert newest(tmp_path).quality.tolist() == [Quality.ADJACENT]
    feed(tmp_path, "b", [row(poll) for poll in range(back + 13, back + 32)])
    run(spark, tmp_path)
    assert newest(tmp_path).quality.tolist() == [Quality.FULL]
    qualities = [r["quality"] for r in window_rows(tmp_path)]
    assert qualities == [Quality.SINGLE, Quality.ADJACENT]


def test_bad_rows_are_quarantined_by_reason_and_good_rows_are_accepted(
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
    assert newest(tmp_path).partition.tolist() == [0]
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


def test_late_samples_are_counted_and_very_late_samples_are_quarantined(
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


def test_segment_damaged_in_the_spool_is_quarantined_and_other_segments_are_read(
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


def test_batch_that_is_rerun_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(3)])
    run(spark, tmp_path)
    feed(tmp_path, "b", [row(poll) for poll in range(3, 6)])
    run(spark, tmp_path)
    before = (messages(tmp_path), newest(tmp_path).counts, len(batch_records(tmp_path)))
    commits = layout.checkpoint(tmp_path, CLUSTER) / "commits"
    for path in commits.glob("*1*"):
        path.unlink()
    assert run(spark, tmp_path, hours=9) == []
    assert (messages(tmp_path), newest(tmp_path).counts, len(batch_records(tmp_path))) == before


def test_lost_checkpoint_causes_no_double_counting(spark: SparkSession, tmp_path: Path) -> None:
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
    monkeypatch.setattr(job, "LIMIT_BYTES", limit)
    lists = layout.checkpoint(tmp_path, CLUSTER) / "sources" / "0"
    publications: list[Published] = []
    largest: list[int] = []

    def fed_on(batch: list[Published]) -> None:
        publications.extend(batch)
        largest.append(max(path.stat().st_size for path in lists.glob("[0-9]*")))
        if len(publications) < polls:
            feed(tmp_path, f"p{len(publications):03d}", [row(len(publications))])

    feed(tmp_path, "p000", [row(0)])
    spark.conf.set(COMPACT_INTERVAL, 3)  # the whole list is written in each third batch
    try:
        Job(spark, tmp_path, CLUSTER, StillClock(NOW), fed_on).run(
            0.3, lambda: len(publications) < polls, rest=0
        )
    finally:
        spark.conf.unset(COMPACT_INTERVAL)

    assert len({published.key.split("-")[0] for published in publications}) > 1
    # Without a bound the last list would name all 7; each name takes about 250 bytes.
    assert max(largest) < 2.5 * limit
    ids = [published.snapshot.snapshot_id for published in publications if published.snapshot]
    assert ids == sorted(set(ids))
    assert len(ids) == polls
    counts = newest(tmp_path).counts
    assert (counts.read, counts.accepted, counts.duplicate) == (polls, polls, 0)
    assert messages(tmp_path) == 100 * (polls - 1)


def test_samples_are_not_rejected_after_a_clock_hours_ahead_is_corrected(
    spark: SparkSession, tmp_path: Path
) -> None:
    ahead = timedelta(hours=10)
    feed(tmp_path, "a", [row(poll, ts=row(poll)["ts"] + ahead) for poll in range(1, 40)])
    run(spark, tmp_path, hours=12)
    feed(tmp_path, "b", [row(poll) for poll in range(100, 140)])
    run(spark, tmp_path, hours=1)
    snapshot = newest(tmp_path)
    assert snapshot.window_end == START + timedelta(seconds=1390)
    assert snapshot.counts.quarantined == {}
    assert snapshot.rate("in_bytes_per_s").tolist() == [500.0]


@pytest.mark.parametrize("table", ["state", "windows", "horizons"])
def test_damaged_tables_are_reported_with_the_command_that_rebuilds_them(
    spark: SparkSession, tmp_path: Path, table: str
) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(1, 40)])
    run(spark, tmp_path)
    folder = layout.tables(tmp_path, CLUSTER) / table
    feed(tmp_path, "b", [row(poll) for poll in range(40, 70)])
    for path in folder.rglob("*.parquet"):
        path.write_bytes(b"PAR1 and no more")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(DocumentError, match="is damaged") as excinfo:
        run(spark, tmp_path)
    assert "pipeline rebuild" in excinfo.value.next
    shutil.rmtree(folder)
    with pytest.raises(DocumentError, match="is damaged"):
        run(spark, tmp_path)


def test_unwritable_folder_is_reported_and_no_sample_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(1, 5)])
    layout.tables(tmp_path, CLUSTER).parent.mkdir(parents=True)
    layout.tables(tmp_path, CLUSTER).write_text("a file where the folder should be")
    with pytest.raises(TrimtabError, match="could not be processed"):
        run(spark, tmp_path)
    layout.tables(tmp_path, CLUSTER).unlink()
    run(spark, tmp_path)
    assert newest(tmp_path).counts.accepted == 4


def test_writer_superseded_by_another_is_refused_before_it_publishes(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(1)])
    old = Job(spark, tmp_path, CLUSTER, StillClock(NOW))
    old.once()
    feed(tmp_path, "b", [row(2)])
    run(spark, tmp_path)
    published = newest(tmp_path).snapshot_id
    feed(tmp_path, "c", [row(3)])
    with pytest.raises(RefusedError, match="Another writer"):
        old.once()
    assert newest(tmp_path).snapshot_id == published
    run(spark, tmp_path)
    assert messages(tmp_path) == 300
