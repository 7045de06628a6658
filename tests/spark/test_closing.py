"""Windows that close in a job that goes on: what is said of them is what counting by hand gives."""

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
    closed,
    feed,
    messages,
    newest,
    percentile,
    row,
    run,
    summed_up,
    window_of,
    window_rows,
    windows_by_hand,
)

from core.load import load_paths as layout
from core.load.windows import LENGTH
from core.pipeline import source
from core.pipeline.job import Job
from core.pipeline.publish import Published

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


def expect_by_hand(root: Path, rows: list[Row], hour: list[Row]) -> None:
    """Hold windows and snapshot, all within one hour, to what the rows sum up to.

    `hour` are the rows that had come when a window closed last.
    """
    last = max(r["ts"] for r in rows)
    by_hand = {key: of for key, of in windows_by_hand(rows).items() if closed(key[1], last)}
    windows_by_key = {(r["partition"], r["window_start"]): r for r in window_rows(root)}
    assert windows_by_key.keys() == by_hand.keys()
    for key, expected in by_hand.items():
        for rate in COLUMNS:
            for what in ("sum", "avg", "p95", "max"):
                assert windows_by_key[key][f"{rate}_{what}"] == pytest.approx(expected[rate][what])
    snapshot = newest(root)
    for p in range(2):
        mine = [r for r in rows if r["partition"] == p]
        young = [r for r in mine if r["ts"] > last - LENGTH]
        whole = [r for r in hour if r["partition"] == p and closed(window_of(r["ts"]), last)]
        for rate, column in COLUMNS.items():
            of_hour = summed_up(whole or young, column)
            if whole:
                means = [w[rate]["avg"] for w in windows_by_hand(whole).values()]
                of_hour["p95"] = percentile([mean for mean in means if mean is not None], 0.95)
            for horizon, expected in (("5m", summed_up(young, column)), ("1h", of_hour)):
                for what in ("avg", "p95", "max"):
                    value = snapshot.rate(rate, horizon, what)[p]
                    assert value == pytest.approx(expected[what]), (rate, horizon, what)


def test_continued_job_and_newly_started_job_give_the_same_figures(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The first window closes with poll 35; poll 28 comes late for it, the second closes with 61.
    parts = [range(25), (26, 35), (36, 28), (44, 61), (62,)]
    rows: list[Row] = []
    of_hour: list[Row] = []
    publications: list[Published] = []

    def feed_next() -> None:
        part = [r for number in parts[len(publications)] for r in poll(number)]
        rows.extend(part)
        feed(tmp_path, f"p{len(publications)}", part)

    def fed_on(batch: list[Published]) -> None:
        publications.extend(batch)
        if len(publications) in (2, 4):
            of_hour[:] = rows
        expect_by_hand(tmp_path, rows, of_hour)
        if len(publications) < len(parts):
            feed_next()

    feed_next()
    Job(spark, tmp_path, CLUSTER, StillClock(NOW), fed_on).run(
        0.3, lambda: len(publications) < len(parts), rest=0
    )
    assert [published.counts.late for published in publications] == [0, 0, 2, 0, 0]

    rows += poll(63)
    feed(tmp_path, "anew", poll(63))
    run(spark, tmp_path)
    expect_by_hand(tmp_path, rows, of_hour)
    assert messages(tmp_path) == sum(r["offset_delta"] or 0 for r in rows)


def test_backlog_of_segments_is_split_into_batches_of_limited_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ROWS_PER_BATCH", 5)
    for number in range(3):
        feed(tmp_path, f"p{number}", poll(number))
    assert [published.counts.read for published in run(spark, tmp_path)] == [4, 2]
    assert messages(tmp_path) == sum(r["offset_delta"] or 0 for n in (0, 1, 2) for r in poll(n))


def test_state_of_partitions_no_longer_sampled_is_discarded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FILES_PER_BATCH", 1)
    for number, at in enumerate((1, 51, 101, 151, 152)):
        made_anew = f"id-{min(number, 3)}"
        feed(tmp_path, f"p{number}", [{**r, "topic_id": made_anew} for r in poll(at)])
    run(spark, tmp_path)
    (folder,) = (layout.tables(tmp_path, CLUSTER) / "state").glob("b=*4")
    kept = [r for path in folder.glob("*.parquet") for r in pq.ParquetFile(path).read().to_pylist()]
    assert {r["topic_id"] for r in kept} == {"id-3"}
    assert len({r["topic_id"] for r in window_rows(tmp_path)}) == 3
    assert newest(tmp_path).counts.accepted == 10
