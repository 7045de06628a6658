"""The hour tier: a day from hours is a day from windows, whatever comes late or is killed."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from feeding import (
    CLUSTER,
    COLUMNS,
    START,
    Row,
    StillClock,
    feed,
    percentile,
    random_polls,
    row,
    summed_up,
    window_of,
    windows_by_hand,
)
from killing import killed_after

from core.load import layout
from core.load.published import read_snapshot
from core.load.windows import KEPT as WINDOWS_KEPT
from core.pipeline import rolls
from core.pipeline.hours import KEPT, Hours
from core.pipeline.job import Job
from core.pipeline.publish import Publisher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOAT32 = 1e-6
"""How far a percentile over an hour's means may be off: they are kept as float32."""


def run(spark: SparkSession, root: Path, hours: float) -> None:
    """Process what is in the spool, as a process that starts `hours` after the first poll would."""
    Job(spark, root, CLUSTER, StillClock(START + timedelta(hours=hours))).once()


def hour_files(root: Path) -> dict[str, Path]:
    return {
        f"{path.parent.name.removeprefix('date=')}T{path.stem.removeprefix('h1-')}": path
        for path in sorted(layout.hours(root, CLUSTER).glob("date=*/h1-*.parquet"))
    }


def hour_of(root: Path, start: datetime) -> Row:
    (found,) = pq.ParquetFile(layout.hour_file(root, CLUSTER, start)).read().to_pylist()
    return found


def day(root: Path) -> dict[tuple[str, str], Any]:
    snapshot = read_snapshot(root, CLUSTER)
    assert snapshot is not None
    return {
        (rate, what): snapshot.rate(rate, "24h", what)
        for rate in COLUMNS
        for what in ("avg", "p95", "max")
    }


def test_a_day_from_hours_is_what_counting_by_hand_gives(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = random_polls(seed=3, polls=1130, seconds=84)  # 26 h 22 min
    rows = [r for poll in polls for r in poll]
    late = [r for poll in polls[900:904] for r in poll]
    feed(tmp_path, "a", [r for r in rows if r not in late])
    run(spark, tmp_path, 28)
    assert len(hour_files(tmp_path)) == 25, "a day's, and one of before"
    feed(tmp_path, "late", late)
    run(spark, tmp_path, 28)

    last = max(r["ts"] for r in rows)
    since = window_of(last) - timedelta(hours=23, minutes=55)
    assert since.minute != 0
    found = day(tmp_path)
    for p in range(3):
        mine = [r for r in rows if r["partition"] == p and r["ts"] >= since]
        by_hand = windows_by_hand(mine)
        for rate, column in COLUMNS.items():
            expected = summed_up(mine, column)
            means = [w[rate]["avg"] for w in by_hand.values() if w[rate]["avg"] is not None]
            for what in ("avg", "max"):
                assert np.isclose(found[rate, what][p], expected[what], rtol=1e-9), (rate, what)
            assert np.isclose(found[rate, "p95"][p], percentile(means, 0.95), rtol=FLOAT32), rate

    # The same from the windows alone, as it was made before there were hours.
    monkeypatch.setattr(Hours, "whole", lambda *_: {})
    publisher = Publisher(spark, tmp_path, CLUSTER, 9)
    table = publisher.statistics(last).to_pylist()
    of_windows = {r["partition"]: r for r in table if r["horizon"] == "24h"}
    for (rate, what), values in found.items():
        expected = [of_windows[p][f"{rate}_{what}"] for p in range(3)]
        assert np.allclose(values, expected, rtol=FLOAT32 if what == "p95" else 1e-9), (rate, what)


def test_an_hour_is_rolled_up_once_it_is_closed_and_again_when_late_samples_change_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    hour = 360
    feed(tmp_path, "a", [row(poll) for poll in range(0, hour, 6)])
    feed(tmp_path, "b", [row(hour + 11)])
    run(spark, tmp_path, 8)
    assert hour_files(tmp_path) == {}, "not 2 minutes after its end"
    feed(tmp_path, "c", [row(hour + 12)])
    run(spark, tmp_path, 8)
    (path,) = hour_files(tmp_path).values()
    made = path.stat().st_mtime_ns
    rolled = hour_of(tmp_path, START)
    assert rolled["messages_per_s_sum"] == 59 * 100
    assert rolled["messages_per_s_means"] == [10.0] * 12
    assert (rolled["n"], rolled["topic"], rolled["leader_last"]) == (59, "t", 1)

    feed(tmp_path, "d", [row(hour + 13)])
    run(spark, tmp_path, 8)
    assert path.stat().st_mtime_ns == made

    feed(tmp_path, "late", [row(91, offset_delta=1100)])
    run(spark, tmp_path, 8)
    rolled = hour_of(tmp_path, START)
    assert rolled["messages_per_s_sum"] == 59 * 100 + 1100
    assert rolled["messages_per_s_max"] == 110.0
    assert rolled["messages_per_s_means"][3] == pytest.approx((500 + 1100) / 60)
    assert rolled["messages_per_s_means"][2] == 10.0


def test_a_window_that_nobody_saw_leaves_its_place_in_the_hour_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll) for poll in (31, 32, 91)] + [row(400)])
    run(spark, tmp_path, 8)
    means = hour_of(tmp_path, START)["in_bytes_per_s_means"]
    assert [i for i, mean in enumerate(means) if mean is not None] == [1, 3]
    assert len(means) == 12


def test_killed_between_roll_up_and_publish_it_publishes_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(0, 360, 12)])
    run(spark, tmp_path, 8)
    feed(tmp_path, "b", [row(400)])
    killed_after("roll_up", tmp_path)
    path = hour_files(tmp_path)["2026-03-01T12"]
    made = path.stat().st_mtime_ns
    run(spark, tmp_path, 8)
    assert path.stat().st_mtime_ns == made
    assert hour_of(tmp_path, START)["messages_per_s_sum"] == 29 * 100
    assert day(tmp_path)["messages_per_s", "avg"].tolist() == [10.0]
    snapshot = read_snapshot(tmp_path, CLUSTER)
    assert snapshot is not None
    assert (snapshot.counts.read, snapshot.counts.accepted) == (31, 31)


def test_hours_outlive_their_windows(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, "a", [row(1), row(400)])
    run(spark, tmp_path, 8)
    publisher = Publisher(spark, tmp_path, CLUSTER, 9)
    publisher.retire(START + WINDOWS_KEPT + timedelta(days=1))
    assert not list(layout.windows(tmp_path, CLUSTER).glob("date=*"))
    Hours(spark, tmp_path, CLUSTER).roll_up(START + WINDOWS_KEPT + timedelta(days=1))
    assert hour_of(tmp_path, START)["messages_per_s_sum"] == 100
    publisher.retire(START + KEPT + timedelta(days=1))
    assert hour_files(tmp_path) == {}


def test_hours_that_an_earlier_version_left_out_are_rolled_up_one_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll) for poll in (1, 400, 800, 1200)])
    run(spark, tmp_path, 8)
    for path in hour_files(tmp_path).values():
        path.unlink()
    newest = START + timedelta(days=3)
    hours = Hours(spark, tmp_path, CLUSTER)
    for expected in (1, 2, 3, 4, 4):
        hours.roll_up(newest)
        assert len(hour_files(tmp_path)) == expected


@pytest.mark.parametrize("n", [1, 2, 20, 21, 287, 288])
def test_the_largest_means_are_enough_for_the_percentile(n: int) -> None:
    values = np.random.default_rng(n).lognormal(size=n)
    low = int(np.floor(0.95 * (n - 1)))
    assert n - low <= rolls.LARGEST
    largest = np.sort(values)[::-1][: rolls.LARGEST]
    below = largest[n - 1 - low]
    above = largest[n - 2 - low] if n - 2 - low >= 0 else below
    assert below + (above - below) * (0.95 * (n - 1) - low) == pytest.approx(
        np.percentile(values, 95)
    )


def test_windows_that_no_longer_change_lose_their_samples_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [row(poll) for poll in range(45)])
    run(spark, tmp_path, 8)
    first, second = sorted(layout.windows(tmp_path, CLUSTER).glob("date=*/w5m-*.parquet"))
    before = pq.ParquetFile(first).read()
    feed(tmp_path, "b", [row(36 * 60 + 35)])  # 6 h and 5 min 50 s after the first
    run(spark, tmp_path, 8)
    after = pq.ParquetFile(first).read()
    assert after.equals(before.drop_columns(["samples"]))
    assert after.schema.metadata == before.schema.metadata
    assert "samples" in pq.ParquetFile(second).schema_arrow.names

    (rolled,) = hour_files(tmp_path).values()
    made = rolled.stat().st_mtime_ns
    feed(tmp_path, "c", [row(36 * 60 + 36), row(2, poll_id=9)])
    run(spark, tmp_path, 8)
    assert rolled.stat().st_mtime_ns == made, "thinner windows make no new hour"
    snapshot = read_snapshot(tmp_path, CLUSTER)
    assert snapshot is not None
    assert snapshot.counts.quarantined == {"too_late": 1}
