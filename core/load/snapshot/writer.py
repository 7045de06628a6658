"""Publishes snapshots: the data first, the manifest last, so that no reader has half of one.

In a folder each by rename, under a lock; in an object store each in one put. Import this module
late: it imports pyarrow.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from core import files
from core.daemons.lease import lease_file
from core.errors import RefusedError, StoreError
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.snapshot.format import PARTITIONS, LoadSnapshot, rate_column
from core.load.snapshot.manifest import (
    FORMAT,
    DataFile,
    Manifest,
    broker_skew,
    fields_of,
    hot_partitions,
    manifest_path,
    read_manifest,
    snapshot_ids,
    topic_skew,
    update_index,
)
from core.load.store import Root, StorePath, write_text
from core.units import format_time

log = logging.getLogger(__name__)

KEEP_LAST = 60
KEEP_HOURLY_SECONDS = 7 * 86400
MIN_AGE_SECONDS = 600

_UNITS = {"in_bytes_per_s": "B/s", "out_bytes_per_s": "B/s", "messages_per_s": "1/s"}


def write_snapshot(root: Root, snapshot: LoadSnapshot, *, writer_epoch: int = 0) -> Manifest:
    """Publish a snapshot and make it the newest; older ones beyond retention are deleted.

    Raises RefusedError when a writer of a higher epoch has published for this cluster, and
    leaves everything that readers see as it was; of a store, as `core.load.store.StorePath` does.

    In a store a writer looks at the manifest once more just before it puts its own, and refuses a
    late task of its own epoch, too. pyarrow has no conditional puts: of two writers that do so in
    the same moment the later put stays. If that is the older one's, readers have its snapshot until
    the newer one publishes again; from then on the older one is refused.
    """
    if isinstance(root, Path):
        manifest = _publish_in_folder(root, snapshot, writer_epoch)
    else:
        manifest = _publish_in_store(root, snapshot, writer_epoch)
    update_index(root, lambda known: known | {snapshot.cluster_id})
    return manifest


def write_earlier(root: Path, snapshot: LoadSnapshot) -> None:
    """Publish a snapshot of an earlier time beside the others: the newest stays the newest."""
    _publish_in_folder(root, snapshot, 0, newest=False)


def _publish_in_folder(
    root: Path, snapshot: LoadSnapshot, writer_epoch: int, *, newest: bool = True
) -> Manifest:
    layout.mark(root)
    folder = layout.snapshots(root, snapshot.cluster_id)
    with files.locked(lease_file(root, snapshot.cluster_id, "publish")):
        before = read_manifest(root, snapshot.cluster_id)
        _refuse_old_writer(before, snapshot, writer_epoch)
        with files.whole_folder(folder / snapshot.snapshot_id) as aside:
            write_columns(aside / PARTITIONS, snapshot)
            content = (aside / PARTITIONS).read_bytes()
            manifest = _manifest(snapshot, writer_epoch, content)
            text = _text(manifest)
            (aside / "manifest.json").write_text(text, encoding="utf-8")
        if newest:
            files.write_text(layout.current(root, snapshot.cluster_id), text)
    if newest and _is_expiry_check_due(snapshot, before):
        _delete_expired(root, snapshot.cluster_id)
    return manifest


def _publish_in_store(root: StorePath, snapshot: LoadSnapshot, writer_epoch: int) -> Manifest:
    cluster_id, snapshot_id = snapshot.cluster_id, snapshot.snapshot_id
    before = read_manifest(root, cluster_id)
    _refuse_old_writer(before, snapshot, writer_epoch)
    sink = pa.BufferOutputStream()
    _write_parquet(sink, snapshot)
    content = sink.getvalue().to_pybytes()
    manifest = _manifest(snapshot, writer_epoch, content)
    text = _text(manifest)
    (layout.snapshots(root, cluster_id) / snapshot_id / PARTITIONS).write_bytes(content)
    newest = read_manifest(root, cluster_id)
    _refuse_old_writer(newest, snapshot, writer_epoch)
    if newest and newest.writer_epoch == writer_epoch and newest.snapshot_id > snapshot_id:
        raise RefusedError(
            f"Snapshot {snapshot_id} of {cluster_id} comes too late: {newest.snapshot_id} has been "
            "published."
        )
    write_text(manifest_path(root, cluster_id, snapshot_id), text)
    write_text(layout.current(root, cluster_id), text)
    if _is_expiry_check_due(snapshot, before):
        try:
            _delete_expired_in_store(layout.snapshots(root, cluster_id), snapshot_id)
        except StoreError as error:  # it is published, and the next one tries again
            log.warning("old snapshots of %s are not deleted: %s", cluster_id, error)
    return manifest


def _refuse_old_writer(newest: Manifest | None, snapshot: LoadSnapshot, writer_epoch: int) -> None:
    if newest is not None and newest.writer_epoch > writer_epoch:
        raise RefusedError(
            f"Another writer publishes the snapshots of {snapshot.cluster_id} (epoch "
            f"{newest.writer_epoch}, this one has {writer_epoch}); this one stops."
        )


def _text(manifest: Manifest) -> str:
    return json.dumps(manifest.to_json(), ensure_ascii=False) + "\n"


def _is_expiry_check_due(snapshot: LoadSnapshot, before: Manifest | None) -> bool:
    """Return whether to look for expired ones: a listing costs, and minutes' are kept anyway."""
    return before is None or _span_index(before.published_at) != _span_index(snapshot.published_at)


def _span_index(moment: datetime) -> int:
    return int(moment.timestamp() // MIN_AGE_SECONDS)


def write_live(root: Path, snapshot: LoadSnapshot) -> None:
    """Write the collector's last interval, replacing the one before."""
    path = layout.live(root, snapshot.cluster_id)
    files.write_whole(path, lambda aside: write_columns(aside, snapshot))


def write_columns(path: Path, snapshot: LoadSnapshot) -> None:
    """Write the partition columns as one Arrow file; NaN and -1 are unknown, there are no nulls."""
    with pa.OSFile(str(path), "wb") as sink:
        _write_parquet(sink, snapshot)


def _write_parquet(sink: Any, snapshot: LoadSnapshot) -> None:
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
        "brokers": json.dumps(list(map(fields_of, snapshot.brokers))),
    }
    schema = pa.schema(fields, metadata=head)
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _manifest(snapshot: LoadSnapshot, writer_epoch: int, content: bytes) -> Manifest:
    """Return the manifest of a snapshot whose partitions' file has this content."""
    digest = hashlib.sha256(content).hexdigest()
    return Manifest(
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        writer_epoch=writer_epoch,
        source=snapshot.source,
        published_at=snapshot.published_at,
        window_end=snapshot.window_end,
        metadata_hash=snapshot.metadata_hash,
        files=(DataFile(PARTITIONS, len(snapshot.partition), len(content), digest),),
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


def _delete_expired_in_store(folder: StorePath, newest: str) -> None:
    """Delete what is beyond retention, and what writers that died left without a manifest."""
    times_by_path = folder.files()
    now = max(times_by_path.values()).timestamp()  # by the store's clock, as all of them are
    written: dict[str, float] = {}
    whole: set[str] = set()
    for path, at in times_by_path.items():
        name, _, file = path.partition("/")
        if file:
            written[name] = max(written.get(name, 0.0), at.timestamp())
        if file == "manifest.json":
            whole.add(name)
    expired = select_expired([(name, written[name]) for name in sorted(whole)], now)
    left = (name for name in written.keys() - whole if now - written[name] > MIN_AGE_SECONDS)
    for name in {*expired, *left} - {newest}:
        (folder / name).delete()


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


def claim_epoch(root: Root, cluster_id: str) -> int:
    """Return an epoch higher than every one given before, for a writer that starts.

    A store has no locks: two writers that start in the same moment may get the same one, and then
    both publish. Raises as `current_epoch` does.
    """
    lease = lease_file(root, cluster_id, "publish") if isinstance(root, Path) else None
    with nullcontext() if lease is None else files.locked(lease):
        epoch = current_epoch(root, cluster_id) + 1
        write_text(layout.epoch(root, cluster_id), f"{epoch}\n")
    return epoch


def current_epoch(root: Root, cluster_id: str) -> int:
    """Return the epoch of the writer that started last; 0 before the first.

    Raises DocumentError when it cannot be read; of a store, as `core.load.store.StorePath` does.
    """
    path = layout.epoch(root, cluster_id)
    try:
        return int(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise layout.damaged_file(path, "is not a number") from error
