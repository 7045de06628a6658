"""The hour tier: a day from hours is a day from windows, whatever comes late or is killed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from feeding import (
    CLUSTER,
    COLUMNS,
    NOW,
    START,
    feed,
    hour_files,
    hour_of,
    newest,
    percentile,
    random_polls,
    row,
    run,
    summed_up,
    window_of,
    windows_by_hand,
)

from core.load import load_paths as layout
from core.load.windows import RETENTION as WINDOWS_KEPT
from core.pipeline import hours, rolls
from core.pipeline.hours import HOUR, KEPT, Hours
from core.pipeline.ledger import Ledger
from core.pipeline.publish import Publisher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = timedelta(minutes=1)
FLOAT32 = 1e-6
"""How far a percentile over an hour's means may be off: they are kept as float32."""


def day(root: Path) -> dict[tuple[str, str], Any]:
    snapshot = newest(root)
    return {
        (rate, what): snapshot.rate(rate, "24h", what)
        for rate in COLUMNS
        for what in ("avg", "p95", "max")
    }


def test_a_day_from_hours_is_what_counting_by_hand_gives(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 26 h 22 min, and nothing of each second window: half the files hold the same law.
    polls = random_polls(seed=3, polls=1130, seconds=84)
    rows = [r for poll in polls for r in poll if window_of(r["ts"]).minute % 10 == 0]
    late = rows[-600:-576]
    feed(tmp_path, "a", [*rows[:-600], *rows[-576:]])
    run(spark, tmp_path, hours=28)
    assert len(hour_files(tmp_path)) == 25, "a day's, and one of before"
    feed(tmp_path, "late", late)
    run(spark, tmp_path, hours=28)

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
    ledger = Ledger(tmp_path, CLUSTER)
    kept = [ledger.complete_batch(key) for key in publisher.windows.partials()]
    publisher.windows.restore([batch for batch in kept if batch is not None], ledger.newest(last))
    publisher.publish(0, last, NOW, ledger.counts(last))
    of_windows = day(tmp_path)
    for (rate, what), values in found.items():
        expected = of_windows[rate, what]
        assert np.allclose(values, expected, rtol=FLOAT32 if what == "p95" else 1e-9), (rate, what)


def test_an_hour_is_rolled_up_once_it_is_closed_and_again_when_late_samples_change_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    hour = 360
    feed(tmp_path, "a", [row(poll) for poll in range(0, hour, 6)])
    feed(tmp_path, "b", [row(hour + 11)])
    run(spark, tmp_path)
    assert hour_files(tmp_path) == {}, "not 2 minutes after its end"
    feed(tmp_path, "c", [row(hour + 12)])
    run(spark, tmp_path)
    (path,) = hour_files(tmp_path).values()
    made = path.stat().st_mtime_ns
    rolled = hour_of(tmp_path, START)
    assert rolled["messages_per_s_sum"] == 59 * 100
    assert rolled["messages_per_s_means"] == [10.0] * 12
    assert (rolled["n"], rolled["topic"], rolled["leader_last"]) == (59, "t", 1)

    feed(tmp_path, "d", [row(hour + 13)])
    run(spark, tmp_path)
    assert path.stat().st_mtime_ns == made

    feed(tmp_path, "late", [row(91, offset_delta=1100)])
    run(spark, tmp_path)
    rolled = hour_of(tmp_path, START)
    assert rolled["messages_per_s_sum"] == 59 * 100 + 1100
    assert rolled["messages_per_s_max"] == 110.0
    assert rolled["messages_per_s_means"][3] == pytest.approx((500 + 1100) / 60)
    assert rolled["messages_per_s_means"][2] == 10.0


def test_each_hour_has_its_own_windows_and_one_that_nobody_saw_leaves_its_place_empty(
    spark: SparkSession,
) -> None:
    names = [part.split()[0] for part in hours.WINDOW_SCHEMA.split(", ")]
    windows = [
        {
            **dict.fromkeys(names),
            "topic_id": "id-t",
            "partition": 0,
            "window_start": START + minutes * MINUTE,
            "topic": "t",
            "leader_last": leader,
            "n": 2,
            "in_bytes_per_s_sum": 10.0 * minutes,
            "in_bytes_per_s_ms": 1000,
            "in_bytes_per_s_avg": 10.0 * minutes,
        }
        for minutes, leader in ((5, 1), (15, 2), (65, 3))
    ]
    rows = spark.createDataFrame([tuple(w.values()) for w in windows], hours.WINDOW_SCHEMA)
    found = {r["hour"]: r for r in hours.rolled_up(rows).toArrow().to_pylist()}
    first, second = found[START], found[START + HOUR]
    assert (first["in_bytes_per_s_sum"], first["in_bytes_per_s_ms"]) == (200.0, 2000)
    assert (first["n"], first["leader_last"], first["in_bytes_per_s_max"]) == (4, 2, None)
    assert first["in_bytes_per_s_means"] == [None, 50.0, None, 150.0, *[None] * 8]
    assert second["in_bytes_per_s_means"] == [None, 650.0, *[None] * 10]
    assert (second["n"], second["leader_last"]) == (2, 3)


def test_hours_that_are_due_make_few_jobs_and_none_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = []
    for number, rows in enumerate((2, 3, 4, 9, 1)):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"rows": list(range(rows))}), path)
        due.append((START + number * HOUR, [path]))
    monkeypatch.setattr(hours, "ROWS_AT_ONCE", 9)
    parts = list(hours.at_once(due))
    assert parts == [due[:3], due[3:4], due[4:]]
    assert list(hours.at_once([])) == []


def test_hours_outlive_their_windows(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, "a", [row(1), row(400)])
    run(spark, tmp_path)
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
    run(spark, tmp_path)
    for path in hour_files(tmp_path).values():
        path.unlink()
    newest = START + timedelta(days=3)
    tier = Hours(spark, tmp_path, CLUSTER)
    for expected in (1, 2, 3, 4, 4):
        tier.roll_up(newest)
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
    run(spark, tmp_path)
    first, second = sorted(layout.windows(tmp_path, CLUSTER).glob("date=*/w5m-*.parquet"))
    before = pq.ParquetFile(first).read()
    feed(tmp_path, "b", [row(36 * 60 + 35)])  # 6 h and 5 min 50 s after the first
    run(spark, tmp_path)
    after = pq.ParquetFile(first).read()
    assert after.equals(before.drop_columns(["samples"]))
    assert after.schema.metadata == before.schema.metadata
    assert "samples" in pq.ParquetFile(second).schema_arrow.names

    (rolled,) = hour_files(tmp_path).values()
    made = rolled.stat().st_mtime_ns
    feed(tmp_path, "c", [row(36 * 60 + 36), row(2, poll_id=9)])
    run(spark, tmp_path)
    assert rolled.stat().st_mtime_ns == made, "thinner windows make no new hour"
    snapshot = newest(tmp_path)
    assert snapshot.counts.quarantined == {"too_late": 1}
