"""Windows that fill in memory are compacted once: what is said of them stays the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest
from feeding import (
    CLUSTER,
    COLUMNS,
    NOW,
    Row,
    StillClock,
    feed,
    messages,
    newest,
    percentile,
    row,
    run,
    summed_up,
    window_rows,
    windows_by_hand,
)

from core.load import load_paths as layout
from core.load.windows import SAMPLES
from core.pipeline import closing, source
from core.pipeline.closing import Windows
from core.pipeline.job import Job, Published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def poll(number: int) -> list[Row]:
    """Return two partitions' rows, of which no two are alike."""
    rng = np.random.default_rng(number)
    return [
        row(
            number,
            partition=partition,
            in_bytes=float(rng.integers(1, 10_000)) if number else None,
            offset_delta=int(rng.integers(1, 500)) if number else None,
        )
        for partition in range(2)
    ]


def expect_by_hand(root: Path, rows: list[Row]) -> None:
    """Hold windows and snapshot, all within one hour, to what the rows sum up to."""
    by_hand = windows_by_hand(rows)
    found = {(r["partition"], r["window_start"]): r for r in window_rows(root)}
    assert found.keys() == by_hand.keys()
    for key, expected in by_hand.items():
        for rate in COLUMNS:
            for what in ("sum", "avg", "p95", "max"):
                assert found[key][f"{rate}_{what}"] == pytest.approx(expected[rate][what])
    snapshot = newest(root)
    last = max(r["ts"] for r in rows)
    for p in range(2):
        mine = [r for r in rows if r["partition"] == p]
        young = [r for r in mine if r["ts"] > last - closing.LENGTH]
        for rate, column in COLUMNS.items():
            hour = summed_up(mine, column)
            means = [w[rate]["avg"] for key, w in by_hand.items() if key[0] == p]
            hour["p95"] = percentile([mean for mean in means if mean is not None], 0.95)
            for horizon, expected in (("5m", summed_up(young, column)), ("1h", hour)):
                for what in ("avg", "p95", "max"):
                    value = snapshot.rate(rate, horizon, what)[p]
                    assert value == pytest.approx(expected[what]), (rate, horizon, what)


def has_samples(root: Path) -> list[bool]:
    files = sorted(layout.windows(root, CLUSTER).glob("date=*/w5m-*.parquet"))
    return [SAMPLES in pq.ParquetFile(path).schema_arrow.names for path in files]


def partials(root: Path) -> list[str]:
    return sorted(path.stem for path in layout.partials(root, CLUSTER).glob("b=*.parquet"))


def test_a_job_that_goes_on_and_one_that_begins_anew_say_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The first window closes with poll 42; poll 43 comes late for it.
    parts = [range(35), (35,), (42,), (43, 28), (44,)]
    rows: list[Row] = []
    told: list[Published] = []

    def feed_next() -> None:
        part = [r for number in parts[len(told)] for r in poll(number)]
        if len(told) == 0:
            part = [r for r in part if r["poll_id"] != 28]
        rows.extend(part)
        feed(tmp_path, f"p{len(told)}", part)

    def fed_on(published: Published) -> None:
        expect = rows.copy()
        told.append(published)
        if len(told) in (3, 4):
            assert newest(tmp_path).rate("in_bytes_per_s", "1h", "max")[0] == max(
                r["in_bytes"] / 10 for r in expect if r["partition"] == 0 and r["in_bytes"]
            )
        if len(told) < len(parts):
            feed_next()

    feed_next()
    Job(spark, tmp_path, CLUSTER, StillClock(NOW), fed_on).run(0.3, lambda: len(told) < len(parts))
    expect_by_hand(tmp_path, rows)
    assert has_samples(tmp_path) == [True, False]
    assert len(partials(tmp_path)) == 5, "each has samples of the second window"

    rows += poll(45)
    feed(tmp_path, "anew", poll(45))
    run(spark, tmp_path)
    expect_by_hand(tmp_path, rows)


def test_a_partial_left_by_a_job_that_died_after_it_had_compacted_is_not_counted_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Windows, "drop_partial", lambda *_: None)
    feed(tmp_path, "a", poll(1))
    run(spark, tmp_path)
    feed(tmp_path, "b", poll(50))
    run(spark, tmp_path)
    assert len(partials(tmp_path)) == 2
    monkeypatch.undo()
    feed(tmp_path, "c", poll(51))
    run(spark, tmp_path)
    expect_by_hand(tmp_path, [*poll(1), *poll(50), *poll(51)])
    assert len(partials(tmp_path)) == 2


def test_after_an_outage_large_segments_make_batches_of_their_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ROWS_PER_BATCH", 5)
    for number in range(3):
        feed(tmp_path, f"p{number}", poll(number))
    assert [published.batch.read for published in run(spark, tmp_path)] == [4, 2]
    assert messages(tmp_path) == sum(r["offset_delta"] or 0 for n in (0, 1, 2) for r in poll(n))


def test_partitions_that_are_gone_are_forgotten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "ROOM", 0)
    monkeypatch.setattr(source, "FILES_PER_BATCH", 1)
    for number in range(4):
        made_anew = f"id-{number}"
        feed(tmp_path, f"p{number}", [{**r, "topic_id": made_anew} for r in poll(1 + 50 * number)])
    job = Job(spark, tmp_path, CLUSTER, StillClock(NOW))
    kept: list[int] = []
    restore = Windows.restore

    def counted(windows: Windows, *given: object) -> None:
        kept.append(len(windows.keys))
        restore(windows, *given)  # type: ignore[arg-type]
        kept.append(len(windows.keys))

    monkeypatch.setattr(Windows, "restore", counted)
    job.once()
    assert kept == [0, 0, 6, 2]
    assert newest(tmp_path).counts.accepted == 8
