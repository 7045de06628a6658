"""Publishes snapshots: Arrow files in a folder, then the manifest by rename.

A reader takes the manifest first, then maps the files it names. Import this module late: it
imports pyarrow.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from core import files
from core.daemons.lease import lease_file
from core.errors import RefusedError
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.snapshot.format import PARTITIONS, LoadSnapshot, rate_column
from core.load.snapshot.manifest import (
    FORMAT,
    DataFile,
    Manifest,
    broker_skew,
    hot_partitions,
    read_manifest,
    snapshot_ids,
    topic_skew,
    update_index,
)
from core.units import format_time

KEEP_LAST = 60
KEEP_HOURLY_SECONDS = 7 * 86400
MIN_AGE_SECONDS = 600

_UNITS = {"in_bytes_per_s": "B/s", "out_bytes_per_s": "B/s", "messages_per_s": "1/s"}


def write_snapshot(
    root: Path, snapshot: LoadSnapshot, *, writer_epoch: int = 0, newest: bool = True
) -> Manifest:
    """Publish a snapshot and make it the newest; older ones beyond retention are deleted.

    One that is not `newest` is of an earlier time: readers keep the one they have. Raises
    RefusedError when a writer of a higher epoch has published for this cluster, and leaves
    everything as it was.
    """
    layout.mark(root)
    folder = layout.snapshots(root, snapshot.cluster_id)
    with files.locked(lease_file(root, snapshot.cluster_id, "publish")):
        last = read_manifest(root, snapshot.cluster_id)
        if last is not None and last.writer_epoch > writer_epoch:
            raise RefusedError(
                f"Another writer publishes the snapshots of {snapshot.cluster_id} (epoch "
                f"{last.writer_epoch}, this one has {writer_epoch}); this one stops."
            )
        with files.whole_folder(folder / snapshot.snapshot_id) as aside:
            write_columns(aside / PARTITIONS, snapshot)
            content = (aside / PARTITIONS).read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            data = DataFile(PARTITIONS, len(snapshot.partition), len(content), digest)
            manifest = _manifest(snapshot, writer_epoch, (data,))
            text = json.dumps(manifest.to_json(), ensure_ascii=False) + "\n"
            (aside / "manifest.json").write_text(text, encoding="utf-8")
        if newest:
            files.write_text(layout.current(root, snapshot.cluster_id), text)
    update_index(root, lambda known: known | {snapshot.cluster_id})
    _delete_expired(root, snapshot.cluster_id)
    return manifest


def write_live(root: Path, snapshot: LoadSnapshot) -> None:
    """Write the collector's last interval, replacing the one before."""
    path = layout.live(root, snapshot.cluster_id)
    files.write_whole(path, lambda aside: write_columns(aside, snapshot))


def write_columns(path: Path, snapshot: LoadSnapshot) -> None:
    """Write the partition columns as one Arrow file; NaN and -1 are unknown, there are no nulls."""
    arrays: list[Any] = []
    fields: list[Any] = []

    def add(name: str, array: Any, unit: str | None = None) -> None:
        arrays.append(array)
        fields.append(
            pa.field(name, array.type, nullable=False, metadata={"unit": unit} if unit else None)
        )

    add("topic", columns.dictionary_array(snapshot.topic_of, snapshot.topics))
    add("partition", columns.number_array(snapshot.partition, pa.int32()))
    if snapshot.leader is not None:
        add("leader", columns.number_array(snapshot.leader, pa.int32()))
    for (horizon, rate, statistic), column in snapshot.rates.items():
        name = rate_column(rate, horizon, statistic)
        add(name, columns.number_array(column, pa.float64()), _UNITS[rate])
    add("size_bytes", columns.number_array(snapshot.size_bytes, pa.int64()), "B")
    add(
        "growth_bytes_per_s", columns.number_array(snapshot.growth_bytes_per_s, pa.float64()), "B/s"
    )
    add("quality", columns.number_array(snapshot.quality, pa.int8()))
    add("method", columns.number_array(snapshot.method, pa.int8()))
    head = {
        "format": FORMAT,
        "cluster_id": snapshot.cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        "source": snapshot.source.value,
        "published_at": format_time(snapshot.published_at),
        "window_end": format_time(snapshot.window_end),
        "metadata_hash": snapshot.metadata_hash or "",
        # Once more beside the manifest's, because the live interval has no manifest.
        "brokers": json.dumps([asdict(broker) for broker in snapshot.brokers]),
    }
    schema = pa.schema(fields, metadata=head)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _manifest(snapshot: LoadSnapshot, writer_epoch: int, data: tuple[DataFile, ...]) -> Manifest:
    return Manifest(
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        writer_epoch=writer_epoch,
        source=snapshot.source,
        published_at=snapshot.published_at,
        window_end=snapshot.window_end,
        metadata_hash=snapshot.metadata_hash,
        files=data,
        brokers=snapshot.brokers,
        hot_partitions=hot_partitions(snapshot),
        topic_skew=topic_skew(snapshot),
        skew=broker_skew(snapshot.brokers),
        counts=snapshot.counts,
    )


def _delete_expired(root: Path, cluster_id: str) -> None:
    folder = layout.snapshots(root, cluster_id)
    aged = [(name, (folder / name).stat().st_mtime) for name in snapshot_ids(root, cluster_id)]
    for name in select_expired(aged, time.time()):
        shutil.rmtree(folder / name, ignore_errors=True)
    for left in sorted(folder.glob(f"{files.TEMPORARY}*/")):
        # A publish takes a second: whoever began this one died.
        if files.age_seconds(left, time.time()) > MIN_AGE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def select_expired(aged: list[tuple[str, float]], now: float) -> list[str]:
    """Return which of the snapshots (name, written at; oldest first) are no longer kept.

    Kept are the last 60, the first of each hour for 7 days, and everything of the last 10 minutes.
    """
    hours: set[int] = set()
    out = []
    for i, (name, written_at) in enumerate(aged):
        first_of_hour = int(written_at // 3600) not in hours
        hours.add(int(written_at // 3600))
        age = now - written_at
        hourly = first_of_hour and age < KEEP_HOURLY_SECONDS
        if i < len(aged) - KEEP_LAST and not hourly and age > MIN_AGE_SECONDS:
            out.append(name)
    return out


def claim_epoch(root: Path, cluster_id: str) -> int:
    """Return an epoch higher than every one given before, for a writer that starts."""
    path = layout.snapshots(root, cluster_id) / "EPOCH"
    with files.locked(lease_file(root, cluster_id, "publish")):
        epoch = int(path.read_text(encoding="utf-8")) + 1 if path.exists() else 1
        files.write_text(path, f"{epoch}\n")
    return epoch
