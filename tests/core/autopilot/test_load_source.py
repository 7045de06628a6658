"""Which load is judged by: a good window of Spark's, else the mean of the collector's intervals."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from clusters import MB, NOON, cluster

from core.autopilot.observer import LoadSource
from core.cluster.state import ClusterState
from core.load.load import Source
from core.load.snapshot.format import LoadSnapshot, Quality
from core.load.snapshot.writer import write_live, write_snapshot

STATE = replace(
    cluster({"t-0": [1], "t-1": [2], "t-2": [2], "t-3": [1]}, size_bytes=MB), cluster_id="c-1"
)


def snapshot(
    n: int,
    at: datetime = NOON,
    *,
    source: Source = Source.LIVE,
    rate: float = 1.0,
    quality: Quality = Quality.FULL,
    unknown: tuple[int, ...] = (),
    hour: bool = False,
    day: bool = False,
) -> LoadSnapshot:
    rates = np.full(4, rate)
    rates[list(unknown)] = np.nan
    columns = {("5m", "in_bytes_per_s", "avg"): rates}
    if hour:
        columns["1h", "in_bytes_per_s", "avg"] = rates * 10
    if day:
        columns["24h", "in_bytes_per_s", "avg"] = rates * 100
    return LoadSnapshot(
        cluster_id="c-1",
        snapshot_id=f"0001-{n:08}",
        source=source,
        published_at=at,
        window_end=at,
        topics=("t",),
        topic_of=np.zeros(4, np.int32),
        partition=np.arange(4, dtype=np.int32),
        rates=columns,
        size_bytes=np.full(4, MB, np.int64),
        growth_bytes_per_s=np.full(4, np.nan),
        quality=np.full(4, quality, np.int8),
        method=np.zeros(4, np.int8),
    )


def look(load_source: LoadSource, now: datetime = NOON, state: ClusterState = STATE):  # type: ignore[no-untyped-def]
    return load_source.look(state, now, 300)


def test_load_is_none_before_a_snapshot_is_published(tmp_path: Path) -> None:
    assert look(LoadSource(tmp_path, "c-1")) is None


def test_good_window_is_judged_by_its_hourly_rates_if_present(tmp_path: Path) -> None:
    write_snapshot(tmp_path, snapshot(1, source=Source.SPARK, hour=True))
    view = look(LoadSource(tmp_path, "c-1"))
    assert (view.load.source, view.good, view.load.in_bytes_per_s[0]) == (Source.SPARK, 1, 10)
    write_snapshot(tmp_path, snapshot(2, source=Source.SPARK))
    assert look(LoadSource(tmp_path, "c-1")).load.in_bytes_per_s[0] == 1


@pytest.mark.parametrize(
    ("day", "usual"),
    [
        ({"day": True}, 100),
        ({}, None),
        ({"day": True, "unknown": (2,)}, None),
        ({"day": True, "quality": Quality.SINGLE}, None),
    ],
)
def test_usual_load_is_the_daily_mean_only_if_the_day_is_well_known(
    tmp_path: Path, day: dict[str, object], usual: float | None
) -> None:
    write_snapshot(tmp_path, snapshot(1, source=Source.SPARK, hour=True, **day))  # type: ignore[arg-type]
    usual_load = look(LoadSource(tmp_path, "c-1")).usual()
    assert (usual_load and usual_load.in_bytes_per_s[0]) == usual


def test_collector_intervals_provide_no_usual_daily_load(tmp_path: Path) -> None:
    write_live(tmp_path, snapshot(1))
    assert look(LoadSource(tmp_path, "c-1")).usual() is None


@pytest.mark.parametrize(
    ("quality", "good"),
    [(Quality.FULL, 1), (Quality.HALF, 1), (Quality.ADJACENT, 0), (Quality.SINGLE, 0)],
)
def test_partitions_of_poor_window_coverage_are_not_counted_as_good(
    tmp_path: Path, quality: Quality, good: float
) -> None:
    write_snapshot(tmp_path, snapshot(1, source=Source.SPARK, quality=quality))
    assert look(LoadSource(tmp_path, "c-1")).good == good


def test_partitions_of_unknown_rate_or_size_are_not_counted_as_good(tmp_path: Path) -> None:
    write_snapshot(tmp_path, snapshot(1, source=Source.SPARK, unknown=(2,)))
    assert look(LoadSource(tmp_path, "c-1")).good == 0.75
    sizeless = replace(STATE, size_bytes=np.array([-1, MB, MB, MB]))
    assert look(LoadSource(tmp_path, "c-1"), state=sizeless).good == 0.5


def test_collector_intervals_are_averaged_and_each_counted_once(tmp_path: Path) -> None:
    load_source = LoadSource(tmp_path, "c-1")
    for n, rate in enumerate((1.0, 2.0, 6.0)):
        at = NOON + timedelta(seconds=5 * n)
        write_live(tmp_path, snapshot(n, at, rate=rate))
        for _ in range(2):  # the same interval twice is one
            view = look(load_source, at)
        assert view.intervals == n + 1
    assert view.load.in_bytes_per_s[0] == pytest.approx(3.0)
    assert view.load.as_of == NOON + timedelta(seconds=10)
    # What one of them lacks is not known.
    write_live(tmp_path, snapshot(9, NOON + timedelta(seconds=15), unknown=(0, 1)))
    assert look(load_source).good == 0.5


def test_gap_between_collector_intervals_restarts_their_count(tmp_path: Path) -> None:
    load_source = LoadSource(tmp_path, "c-1")
    for n, minutes in enumerate((0, 1, 9)):
        write_live(tmp_path, snapshot(n, NOON + timedelta(minutes=minutes)))
        view = look(load_source)
    assert view.intervals == 1


def test_collector_load_replaces_a_window_that_is_poor_or_old(tmp_path: Path) -> None:
    write_snapshot(tmp_path, snapshot(1, source=Source.SPARK, quality=Quality.SINGLE))
    write_live(tmp_path, snapshot(2, NOON + timedelta(seconds=5)))
    assert look(LoadSource(tmp_path, "c-1")).load.source is Source.LIVE
    write_snapshot(tmp_path, snapshot(3, source=Source.SPARK))
    assert look(LoadSource(tmp_path, "c-1")).load.source is Source.SPARK
    late = NOON + timedelta(minutes=10)
    write_live(tmp_path, snapshot(4, late))
    assert look(LoadSource(tmp_path, "c-1"), late).load.source is Source.LIVE


def test_damaged_snapshot_yields_no_load(tmp_path: Path) -> None:
    write_snapshot(tmp_path, snapshot(1, source=Source.SPARK))
    for path in tmp_path.rglob("*.arrow"):
        path.write_bytes(b"no")
    assert look(LoadSource(tmp_path, "c-1")) is None
