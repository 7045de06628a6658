"""The 5-minute windows on disk, one Parquet file each: written by the pipeline, read for charts.

Import this module late: it imports pyarrow.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core import files
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState, Int32, Int64
from core.errors import DocumentError
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.load import Float64, Load, Source, align_rows, take_rows
from core.load.samples import WINDOW_LENGTH
from core.load.snapshot.format import RATES, STATISTICS, BrokerLoad
from core.load.store import Root

FORMAT = "trimtab.window/1"
LENGTH = WINDOW_LENGTH
RETENTION = timedelta(days=8)
HISTORY = timedelta(hours=24)
"""What charts go back."""

_BROKER_RATES = ("leader_in_bytes_per_s", "follower_in_bytes_per_s", "out_bytes_per_s")


@dataclass(frozen=True, eq=False)
class Window:
    """What every partition carried in one window; NaN and -1 are unknown.

    `rates[(rate, statistic)]` is float64[N]; keys from RATES and STATISTICS of
    `core.load.snapshot.format`, where avg is total over covered time, p95 and max over the samples.
    """

    start: datetime
    topics: tuple[str, ...]
    topic_of: Int32
    partition: Int32
    leader: Int32
    rates: Mapping[tuple[str, str], Float64]
    size_bytes: Int64
    brokers: tuple[BrokerLoad, ...]


@dataclass(frozen=True, eq=False)
class LoadHistory:
    """One partition's or broker's windows, oldest first; arrays of equal length, NaN unknown.

    `starts` are seconds since the epoch; `rates` as in Window, brokers have statistic avg only.
    A broker's `in_bytes_per_s` is what is produced to its leaders, as on the map.
    """

    starts: Float64
    rates: Mapping[tuple[str, str], Float64]
    size_bytes: Float64

    def __len__(self) -> int:
        return len(self.starts)


def window_floor(moment: datetime) -> datetime:
    """Return the start of the window that `moment` lies in."""
    seconds = int(LENGTH.total_seconds())
    return datetime.fromtimestamp(int(moment.timestamp()) // seconds * seconds, UTC)


def rate_column(rate: str, statistic: str) -> str:
    return f"{rate}_{statistic}"


def write_window(root: Path, cluster_id: str, window: Window, *, durable: bool = True) -> None:
    """Write one window's partitions and brokers, replacing what was there."""
    fields: dict[str, Any] = {
        "topic": columns.dictionary_array(window.topic_of, window.topics),
        "partition": columns.number_array(window.partition, pa.int32()),
        "leader_last": columns.number_array(window.leader, pa.int32()),
        "size_last": columns.number_array(window.size_bytes, pa.int64()),
    }
    for (rate, statistic), values in window.rates.items():
        fields[rate_column(rate, statistic)] = columns.number_array(values, pa.float64())
    write_rows(root, cluster_id, window.start, pa.table(fields), durable=durable)
    write_brokers(root, cluster_id, window.start, window.brokers, durable=durable)


def write_rows(
    root: Path, cluster_id: str, start: datetime, table: Any, *, durable: bool = True
) -> None:
    """Write one window's rows as they are."""
    marked = table.replace_schema_metadata({"format": FORMAT})
    path = layout.window_file(root, cluster_id, start)
    files.write_whole(
        path, lambda aside: pq.write_table(marked, aside, compression="zstd"), durable=durable
    )


def write_brokers(
    root: Path,
    cluster_id: str,
    start: datetime,
    brokers: Sequence[BrokerLoad],
    *,
    durable: bool = True,
) -> None:
    """Write the brokers' totals in one window."""
    fields: dict[str, Any] = {
        "broker": columns.number_array(np.array([b.broker for b in brokers]), pa.int32())
    }
    for name in (*_BROKER_RATES, "size_bytes"):
        values = [getattr(b, name) for b in brokers]
        known = np.array([np.nan if value is None else value for value in values], np.float64)
        fields[name] = columns.number_array(known, pa.float64())
    table = pa.table(fields).replace_schema_metadata({"format": FORMAT})
    path = layout.broker_file(root, cluster_id, start)
    files.write_whole(
        path, lambda aside: pq.write_table(table, aside, compression="zstd"), durable=durable
    )


def window_files(
    root: Path, cluster_id: str, since: datetime, until: datetime, kind: str = "w5m"
) -> tuple[Path, ...]:
    """Return the files of the windows that start in [since, until), oldest first."""
    first, last = (moment.astimezone(UTC).date() for moment in (since, until))
    days = (first + timedelta(days=n) for n in range((last - first).days + 1))
    window_paths = (
        path
        for day in days
        for path in (layout.windows(root, cluster_id) / f"date={day}").glob(f"{kind}-*.parquet")
        if since <= layout.window_start(path) < until
    )
    return tuple(sorted(window_paths, key=lambda path: (path.parent.name, path.name)))


def delete_expired(root: Path, cluster_id: str, newest: datetime) -> None:
    """Delete the windows of the days before RETENTION, counted back from the newest sample."""
    oldest = f"date={(newest - RETENTION):%Y-%m-%d}"
    for folder in layout.windows(root, cluster_id).glob("date=*"):
        if folder.name < oldest:
            shutil.rmtree(folder, ignore_errors=True)


def read_history(
    root: Root, cluster_id: str, of: int | TopicPartition, until: datetime | None = None
) -> LoadHistory:
    """Return the windows of a broker (its id) or a partition over a day, oldest first.

    The newest window is still filling: its rates are those of the part that has passed. A store
    has no windows.
    """
    until = until or datetime.now(UTC) + timedelta(minutes=1)
    if isinstance(of, TopicPartition):
        kind, keys, size = "w5m", ["topic", "partition"], "size_last"
        names = {(rate, stat): rate_column(rate, stat) for rate in RATES for stat in STATISTICS}
    else:
        kind, keys, size = "b5m", ["broker"], "size_bytes"
        names = {
            ("in_bytes_per_s", "avg"): "leader_in_bytes_per_s",
            ("out_bytes_per_s", "avg"): "out_bytes_per_s",
        }
    rows: list[dict[str, float]] = []
    since = until - HISTORY
    for path in (
        window_files(root, cluster_id, since, until, kind) if isinstance(root, Path) else ()
    ):
        table = _read(path, [*keys, *names.values(), size], ["topic"] if "topic" in keys else None)
        here = np.flatnonzero(_rows_of(table, of))
        if len(here):
            values = {
                name: float(columns.to_numpy(table[name])[here[-1]])
                for name in (*names.values(), size)
                if name in table.column_names
            }
            rows.append({"start": layout.window_start(path).timestamp()} | values)
    sizes = _column(rows, size)
    return LoadHistory(
        _column(rows, "start"),
        {key: _column(rows, name) for key, name in names.items()},
        np.where(sizes < 0, np.nan, sizes),
    )


def _rows_of(table: Any, of: int | TopicPartition) -> Any:
    """Return which rows of a window are of a broker, or of a partition."""
    if not isinstance(of, TopicPartition):
        return columns.to_numpy(table["broker"]) == of
    codes, topics = columns.to_codes(table["topic"])
    if of.topic not in topics:
        return np.zeros(len(codes), np.bool_)
    partition = columns.to_numpy(table["partition"])
    return (codes == topics.index(of.topic)) & (partition == of.partition)


def load_at(root: Root, cluster_id: str, state: ClusterState, moment: datetime) -> Load | None:
    """Return what partitions carried in the window that `moment` lies in; None where none is kept.

    None are in a store. A window's end is its load's time. Raises DocumentError for a damaged file.
    """
    if not isinstance(root, Path):
        return None
    start = window_floor(moment)
    path = layout.window_file(root, cluster_id, start)
    if not path.exists():
        return None
    names = {rate: rate_column(rate, "avg") for rate in RATES}
    table = _read(path, ["topic", "partition", *names.values()], ["topic"])
    codes, topics = columns.to_codes(table["topic"])
    rows = align_rows(topics, codes, columns.to_numpy(table["partition"]), state)
    known = set(table.column_names)
    rates = {
        rate: take_rows(columns.to_numpy(table[name]), rows)
        if name in known
        else np.full(len(rows), np.nan)
        for rate, name in names.items()
    }
    return Load(**rates, source=Source.SPARK, as_of=start + LENGTH)


def _read(path: Path, names: Sequence[str], dictionary: list[str] | None = None) -> Any:
    """Return those of the columns `names` that the file has."""
    try:
        file = pq.ParquetFile(path, read_dictionary=dictionary)
        known = set(file.schema_arrow.names)
        table = file.read(columns=[name for name in names if name in known])
    except FileNotFoundError:
        raise
    except columns.DAMAGED as error:
        raise DocumentError(f"{path} is not a whole window file.", next=layout.REPAIR) from error
    layout.check_format(columns.schema_metadata(file.schema_arrow).get("format", ""), FORMAT, path)
    return table


def _column(rows: Sequence[Mapping[str, float]], name: str) -> Float64:
    return np.array([row.get(name, np.nan) for row in rows], np.float64)
