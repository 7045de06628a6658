"""Publishes on the executors: a task has the rows of one cluster, or of one of its windows.

What goes wrong with one cluster is returned as its row and stops no other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core import errors, files
from core.errors import TrimtabError
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.load import Source
from core.load.samples import from_micros
from core.load.snapshot.format import (
    HORIZONS,
    RATES,
    STATISTICS,
    BrokerLoad,
    Counts,
    LoadSnapshot,
    rate_column,
)
from core.load.snapshot.manifest import broker_loads
from core.load.snapshot.writer import write_snapshot
from core.load.store import Root
from core.load.windows import Window, window_floor, write_brokers, write_rows, write_window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

MAX_REFUSED = 100_000
_ANSWER = "cluster string, repeated bigint, error string, title string, next string"


@dataclass(frozen=True, slots=True)
class Heading:
    """What a snapshot says besides its rows."""

    snapshot_id: str
    writer_epoch: int
    newest: datetime
    published_at: datetime
    counts: Counts


@dataclass(frozen=True, slots=True)
class Published:
    """One cluster's part of a batch: what became of its rows, and its snapshot if there is one."""

    key: str
    """The batch's."""
    cluster_id: str
    counts: Counts
    newest: datetime | None
    """The newest sample of the cluster."""
    snapshot: Heading | None

    @property
    def source_lag_seconds(self) -> float | None:
        """Return how old the newest sample was as it was published."""
        if self.snapshot is None:
            return None
        return (self.snapshot.published_at - self.snapshot.newest).total_seconds()


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a cluster's snapshot: published, or why not."""

    repeated: int = 0
    """Rows of the batch that said what another had said."""
    error: TrimtabError | None = None


def publish_snapshots(
    rows: DataFrame, root: Path, snapshots: Root, headings: Mapping[str, Heading]
) -> dict[str, Answer]:
    """Publish a snapshot of each cluster in `rows` (of `windows.snapshot_rows`).

    The window that is filling is written below `root` for charts, as what is known of the last
    five minutes.
    """

    def publish(table: Any) -> Any:
        cluster_id = table["cluster"][0].as_py()
        return _answered(cluster_id, table, lambda: _publish(table, root, snapshots, headings))

    return _answers(rows.groupBy("cluster").applyInArrow(publish, _ANSWER))


def write_windows(rows: DataFrame, root: Path) -> dict[str, Answer]:
    """Write a file of each closed window in `rows` (of `windows.WINDOW`), and of its brokers."""

    def write(table: Any) -> Any:
        cluster_id = table["cluster"][0].as_py()
        return _answered(cluster_id, table, lambda: _write_window(table, root, cluster_id))

    return _answers(rows.drop("samples").groupBy("cluster", "start").applyInArrow(write, _ANSWER))


def write_quarantine(rows: DataFrame, root: Path, kind: str, key: str) -> dict[str, Answer]:
    """Write what a batch has refused of each cluster, with how much of it by `reason`.

    Of more than MAX_REFUSED the rest is only counted.
    """

    def write(table: Any) -> Any:
        cluster_id = table["cluster"][0].as_py()
        return _answered(cluster_id, table, lambda: _write_refused(table, root, kind, key))

    first_rows = rows.limit(MAX_REFUSED)
    return _answers(first_rows.groupBy("cluster").applyInArrow(write, _ANSWER))


def _write_refused(table: Any, root: Path, kind: str, key: str) -> None:
    folder = layout.quarantine(root, table["cluster"][0].as_py()) / kind / f"b={key}"
    files.write_whole(folder / "refused.parquet", lambda aside: pq.write_table(table, aside))
    counts = {
        entry["values"]: entry["counts"] for entry in table["reason"].value_counts().to_pylist()
    }
    note = {"reason": kind, kind: dict(sorted(counts.items()))}
    files.write_text(folder / f"_{kind}.reason.json", json.dumps(note) + "\n")


def _answered(cluster_id: str, table: Any, work: Callable[[], None]) -> Any:
    """Do a cluster's work; return what became of it as one row."""
    repeated = 0
    if "repeated" in table.column_names:
        repeated = int(columns.to_numpy(table["repeated"]).sum())
    wrong: tuple[str | None, str | None, str | None] = (None, None, None)
    try:
        work()
    except TrimtabError as error:
        wrong = (type(error).__name__, error.title, error.next)
    except Exception as error:  # noqa: BLE001 - it is this cluster's, and the others go on
        if not isinstance(error, OSError):
            title = f"The load of {cluster_id} cannot be published: {type(error).__name__}: {error}"
            wrong = ("TrimtabError", title, "This is a bug in trimtab. The last snapshot stays.")
            return _answer(cluster_id, repeated, wrong)
        title = f"The load of {cluster_id} cannot be published: {error.strerror or error}."
        then = "Nothing is lost: it is done again once there is room and it may be written."
        wrong = ("TrimtabError", title, then)
    return _answer(cluster_id, repeated, wrong)


def _answer(
    cluster_id: str, repeated: int, wrong: tuple[str | None, str | None, str | None]
) -> Any:
    names = [part.split() for part in _ANSWER.split(", ")]
    kinds = {"string": pa.utf8(), "bigint": pa.int64()}
    values = (cluster_id, repeated, *wrong)
    return pa.table(
        {
            name: pa.array([value], kinds[kind])
            for (name, kind), value in zip(names, values, strict=True)
        }
    )


def _answers(outcomes: DataFrame) -> dict[str, Answer]:
    """Return what became of each cluster; of several things what went wrong, if anything did."""
    out: dict[str, Answer] = {}
    for row in outcomes.collect():
        error = None
        if row.error is not None:
            error = getattr(errors, row.error)(row.title, next=row.next)
        if row.cluster not in out or out[row.cluster].error is None:
            out[row.cluster] = Answer(row.repeated, error)
    return out


def check(answers: dict[str, Answer], *, alone: bool) -> dict[str, Answer]:
    """Return what became of clusters; raises what went wrong with one that is `alone` in its job.

    Of many it is logged, and the others go on.
    """
    for cluster_id, answer in answers.items():
        if answer.error is not None:
            if alone:
                raise answer.error
            log.warning("%s: %s", cluster_id, answer.error)
    return answers


def _publish(table: Any, root: Path, snapshots: Root, headings: Mapping[str, Heading]) -> None:
    cluster_id = table["cluster"][0].as_py()
    heading = headings[cluster_id]
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending")])
    snapshot = _snapshot(table, cluster_id, heading)
    write_snapshot(snapshots, snapshot, writer_epoch=heading.writer_epoch)
    start = window_floor(heading.newest)
    # Written again in a moment.
    write_window(root, cluster_id, _window_from_snapshot(snapshot, start), durable=False)


def _snapshot(table: Any, cluster_id: str, heading: Heading) -> LoadSnapshot:
    topic_of, topics = columns.to_codes(table["topic"].dictionary_encode())
    rates = {
        (horizon, rate, statistic): columns.to_numpy(table[rate_column(rate, horizon, statistic)])
        for horizon in HORIZONS
        for rate in RATES
        for statistic in STATISTICS
    }
    leader = columns.to_numpy(table["leader"])
    start, replicas = columns.to_lists(table["replicas"])
    _, sizes = columns.to_lists(table["sizes"])
    repeated = int(columns.to_numpy(table["repeated"]).sum())
    return LoadSnapshot(
        cluster_id=cluster_id,
        snapshot_id=heading.snapshot_id,
        source=Source.SPARK,
        published_at=heading.published_at,
        window_end=heading.newest,
        topics=topics,
        topic_of=topic_of,
        partition=columns.to_numpy(table["partition"]),
        rates=rates,
        size_bytes=_sizes(leader, start, replicas, sizes),
        growth_bytes_per_s=columns.to_numpy(table["growth_bytes_per_s"]),
        quality=columns.to_numpy(table["quality"]),
        method=columns.to_numpy(table["method"]),
        brokers=broker_loads(
            leader=leader,
            replica_start=start,
            replica_broker=replicas,
            replica_size=sizes,
            in_bytes_per_s=rates["5m", "in_bytes_per_s", "avg"],
            out_bytes_per_s=rates["5m", "out_bytes_per_s", "avg"],
        ),
        counts=without_repeated(heading.counts, repeated),
        leader=leader,
    )


def without_repeated(counts: Counts, repeated: int) -> Counts:
    """Return counts in which so many accepted rows are duplicates."""
    return replace(
        counts, accepted=counts.accepted - repeated, duplicate=counts.duplicate + repeated
    )


def _sizes(leader: Any, start: Any, replicas: Any, sizes: Any) -> Any:
    """Return each partition's size: its leader's log, or where that is unknown the largest."""
    of = np.repeat(np.arange(len(leader)), np.diff(start))
    size = np.full(len(leader), -1, np.int64)
    np.maximum.at(size, of, sizes)
    known = (replicas == leader[of]) & (sizes >= 0)
    size[of[known]] = sizes[known]
    return size


def _window_from_snapshot(snapshot: LoadSnapshot, start: datetime) -> Window:
    assert snapshot.leader is not None
    return Window(
        start=start,
        topics=snapshot.topics,
        topic_of=snapshot.topic_of,
        partition=snapshot.partition,
        leader=snapshot.leader,
        rates={
            (rate, statistic): snapshot.rate(rate, "5m", statistic)
            for rate in RATES
            for statistic in STATISTICS
        },
        size_bytes=snapshot.size_bytes,
        brokers=snapshot.brokers,
    )


def _write_window(table: Any, root: Path, cluster_id: str) -> None:
    start = from_micros(table["start"][0].as_py())
    # Rows last: where they are, the brokers' totals are, too.
    write_brokers(root, cluster_id, start, _brokers(table))
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending")])
    write_rows(root, cluster_id, start, table.drop_columns(["cluster", "start", "replicas"]))


def _brokers(table: Any) -> tuple[BrokerLoad, ...]:
    """Return the brokers' totals in a window, by who held replicas as it closed."""
    replicas = table["replicas"].combine_chunks()
    start, broker = columns.to_lists(_field_lists(replicas, "broker"))
    _, size = columns.to_lists(_field_lists(replicas, "size"))
    return broker_loads(
        leader=columns.to_numpy(table["leader_last"]),
        replica_start=start,
        replica_broker=broker,
        replica_size=size,
        in_bytes_per_s=columns.to_numpy(table["in_bytes_per_s_avg"]),
        out_bytes_per_s=columns.to_numpy(table["out_bytes_per_s_avg"]),
    )


def _field_lists(lists: Any, name: str) -> Any:
    """Return lists of structs as lists of one of their fields; a list that is null is empty."""
    values = lists.flatten().field(name)
    lengths = np.array(
        [0 if length is None else length for length in lists.value_lengths().to_pylist()]
    )
    start = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(columns.number_array(start, pa.int32()), values)
