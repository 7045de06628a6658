"""Windows on disk and where the newest load is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snapshots import AT, make_snapshot

from core.cluster.metadata import Broker, PartitionRow, TopicPartition
from core.cluster.state import ClusterState
from core.errors import DocumentError
from core.load import load_paths as layout
from core.load import load_source as locate
from core.load import windows
from core.load.load import Source
from core.load.snapshot import writer as published
from core.load.snapshot.format import BrokerLoad, LoadSnapshot

CLUSTER = "abc-DEF_1"
KEY = ("5m", "in_bytes_per_s", "avg")


def window(start: datetime, rate: float) -> windows.Window:
    return windows.Window(
        start=start,
        topics=("a", "b"),
        topic_of=np.array([0, 1], np.int32),
        partition=np.array([0, 3], np.int32),
        leader=np.array([1, 2], np.int32),
        rates={
            ("in_bytes_per_s", "avg"): np.array([rate, 2 * rate]),
            ("in_bytes_per_s", "max"): np.array([rate, np.nan]),
        },
        size_bytes=np.array([10, -1], np.int64),
        brokers=(
            BrokerLoad(1, rate, 5.0, 1.0, 10, 1, 2),
            BrokerLoad(2, rate, None, None, None, 1, 2),
        ),
    )


def test_history_of_a_partition_and_of_a_broker_goes_over_midnight(tmp_path: Path) -> None:
    first = datetime(2026, 2, 28, 23, 50, tzinfo=UTC)
    for i in range(4):
        windows.write_window(tmp_path, CLUSTER, window(first + i * windows.LENGTH, 100.0 * (i + 1)))
    until = first + timedelta(hours=1)
    history = windows.read_history(tmp_path, CLUSTER, TopicPartition("b", 3), until)
    assert history.starts.tolist() == [first.timestamp() + 300 * i for i in range(4)]
    assert history.rates["in_bytes_per_s", "avg"].tolist() == [200.0, 400.0, 600.0, 800.0]
    assert np.isnan(history.rates["in_bytes_per_s", "max"]).all()
    assert np.isnan(history.rates["out_bytes_per_s", "avg"]).all()
    assert np.isnan(history.size_bytes).all()
    a_day_later = first + windows.LENGTH + timedelta(days=1)
    broker = windows.read_history(tmp_path, CLUSTER, 1, a_day_later)
    assert broker.rates["in_bytes_per_s", "avg"].tolist() == [200.0, 300.0, 400.0]
    for unknown in (9, TopicPartition("c", 0)):
        assert len(windows.read_history(tmp_path, CLUSTER, unknown, until)) == 0


def test_load_at_a_time_is_that_of_the_window_containing_it(tmp_path: Path) -> None:
    start = datetime(2026, 2, 28, 23, 50, tzinfo=UTC)
    windows.write_window(tmp_path, CLUSTER, window(start, 100.0))
    rows = [PartitionRow("a", 0, 1, (1,), (1,)), PartitionRow("c", 0, 1, (1,), (1,))]
    state = ClusterState.build(
        cluster_id=CLUSTER, fetched_at=start, brokers=[Broker(1)], topics=(), partitions=rows
    )
    for seconds in (0, 299):
        load = windows.load_at(tmp_path, CLUSTER, state, start + timedelta(seconds=seconds))
        assert load.in_bytes_per_s.tolist()[0] == 100.0
        assert np.isnan(load.in_bytes_per_s[1]), "it was not measured"
        assert np.isnan(load.out_bytes_per_s).all()
        assert (load.source, load.as_of) == (Source.SPARK, start + windows.LENGTH)
    for seconds in (-1, 300):
        moment = start + timedelta(seconds=seconds)
        assert windows.load_at(tmp_path, CLUSTER, state, moment) is None


def test_rewritten_window_replaces_the_previous_one(tmp_path: Path) -> None:
    for rate in (1.0, 7.0):
        windows.write_window(tmp_path, CLUSTER, window(AT, rate))
    history = windows.read_history(
        tmp_path, CLUSTER, TopicPartition("a", 0), AT + timedelta(hours=1)
    )
    assert history.rates["in_bytes_per_s", "avg"].tolist() == [7.0]


def test_a_window_of_a_higher_format_is_refused(tmp_path: Path) -> None:
    windows.write_window(tmp_path, CLUSTER, window(AT, 1.0))
    import pyarrow.parquet as pq

    path = layout.window_file(tmp_path, CLUSTER, AT)
    table = pq.ParquetFile(path).read().replace_schema_metadata({"format": "trimtab.window/9"})
    pq.write_table(table, path)
    with pytest.raises(DocumentError, match="trimtab.window/9"):
        windows.read_history(tmp_path, CLUSTER, TopicPartition("a", 0), AT + timedelta(hours=1))


@pytest.mark.parametrize(
    ("published_age", "live_age", "source"),
    [
        (60, 5, Source.SPARK),
        (3600, 5, Source.LIVE),
        (5, 3600, Source.SPARK),
        (None, 5, Source.LIVE),
        (3600, None, Source.SPARK),
        (None, None, None),
    ],
)
def test_newest_load_is_from_spark_unless_much_older_than_the_live_interval(
    tmp_path: Path, published_age: int | None, live_age: int | None, source: Source | None
) -> None:
    def aged(seconds: int, of: Source) -> None:
        snapshot = make_snapshot(source=of, window_end=AT - timedelta(seconds=seconds))
        if of is Source.LIVE:
            published.write_live(tmp_path, snapshot)
        else:
            published.write_snapshot(tmp_path, snapshot)

    if published_age is not None:
        aged(published_age, Source.SPARK)
    if live_age is not None:
        aged(live_age, Source.LIVE)
    state = ClusterState.build(
        cluster_id=CLUSTER,
        fetched_at=AT,
        brokers=[Broker(1)],
        topics=[],
        partitions=[
            PartitionRow("clicks", 1, 1, (1,), (1,)),
            PartitionRow("new", 0, 1, (1,), (1,)),
        ],
    )
    load = locate.newest_load(state, str(tmp_path))
    assert load.source is source
    expected = [10.0, np.nan] if source else [np.nan, np.nan]
    np.testing.assert_array_equal(load.in_bytes_per_s, expected)


@pytest.mark.parametrize(
    ("published_ahead", "live_ahead", "source"),
    [(7200, 0, Source.LIVE), (0, 7200, Source.SPARK), (7200, 7100, Source.SPARK)],
)
def test_snapshot_dated_in_the_future_gives_way_to_one_that_is_not(
    tmp_path: Path, published_ahead: int, live_ahead: int, source: Source
) -> None:
    now = datetime.now(UTC)
    spark = make_snapshot(window_end=now + timedelta(seconds=published_ahead))
    published.write_snapshot(tmp_path, spark)
    live = make_snapshot(source=Source.LIVE, window_end=now + timedelta(seconds=live_ahead))
    published.write_live(tmp_path, live)
    snapshot = locate.newest_snapshot(CLUSTER, str(tmp_path))
    assert snapshot.source is source


@pytest.mark.parametrize(
    ("published_rates", "live_rates", "source"),
    [(False, True, Source.LIVE), (True, False, Source.SPARK), (False, False, Source.SPARK)],
)
def test_snapshot_without_rates_gives_way_to_one_with_rates(
    tmp_path: Path, published_rates: bool, live_rates: bool, source: Source
) -> None:
    def snapshot(source: Source, *, known: bool) -> LoadSnapshot:
        whole = make_snapshot(source=source)
        return whole if known else replace(whole, rates={KEY: np.full(4, np.nan)})

    published.write_snapshot(tmp_path, snapshot(Source.SPARK, known=published_rates))
    published.write_live(tmp_path, snapshot(Source.LIVE, known=live_rates))
    load_snapshot = locate.newest_snapshot(CLUSTER, str(tmp_path))
    assert load_snapshot.source is source


def test_windows_start_at_whole_five_minutes() -> None:
    assert windows.window_floor(AT + timedelta(minutes=7, seconds=3)) == AT + timedelta(minutes=5)
    path = layout.window_file(Path("x"), CLUSTER, AT)
    assert layout.window_start(path) == AT


def test_a_chart_reads_only_the_columns_that_it_shows(tmp_path: Path) -> None:
    windows.write_window(tmp_path, CLUSTER, window(AT, 7.0))
    path = layout.window_file(tmp_path, CLUSTER, windows.window_floor(AT))
    table = pq.ParquetFile(path).read()
    samples = pa.array([[1.0, 2.0], [3.0]])
    windows.write_rows(tmp_path, CLUSTER, AT, table.append_column("samples", samples))
    spoil(path, "samples")
    with pytest.raises(OSError, match="page"):
        pq.ParquetFile(path).read()
    history = windows.read_history(
        tmp_path, CLUSTER, TopicPartition("a", 0), AT + timedelta(hours=1)
    )
    assert history.rates["in_bytes_per_s", "avg"].tolist() == [7.0]


def spoil(path: Path, column: str) -> None:
    """Overwrite one column's bytes in a Parquet file."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    (chunk,) = (
        group.column(i)
        for i in range(group.num_columns)
        if group.column(i).path_in_schema.startswith(column)
    )
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[at : at + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
