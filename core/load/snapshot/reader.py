"""Reads published snapshots, and verifies that one is as it was published.

The manifest first, then the files that it names: mapped from a folder, fetched from a store. Import
this module late: it imports pyarrow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from core.errors import DocumentError
from core.load import arrow as columns
from core.load import load_paths as layout
from core.load.load import Source
from core.load.snapshot.format import (
    HORIZONS,
    PARTITIONS,
    RATES,
    STATISTICS,
    BrokerLoad,
    LoadSnapshot,
    rate_column,
)
from core.load.snapshot.manifest import (
    FORMAT,
    DataFile,
    Manifest,
    manifest_path,
    read_manifest,
    snapshot_ids,
)
from core.load.store import Root, StorePath
from core.text.json_text import from_known_fields, parse_json
from core.units import parse_time


def read_snapshot(
    root: Root, cluster_id: str, snapshot_id: str | None = None
) -> LoadSnapshot | None:
    """Return a snapshot of a cluster, by default the newest; None when there is none.

    Raises DocumentError when it is damaged or of a higher major version; of a store, as
    `core.load.store.StorePath` does.
    """
    for last_try in (False, True):
        manifest = read_manifest(root, cluster_id, snapshot_id)
        if manifest is None:
            return None
        path = layout.snapshots(root, cluster_id) / manifest.snapshot_id / PARTITIONS
        try:
            snapshot = _read_partitions(path, manifest)
        except (FileNotFoundError, DocumentError) as error:
            # Between manifest and files, it may have been replaced, or deleted as too old.
            if not last_try:
                continue
            if isinstance(error, DocumentError):
                raise
            raise layout.damaged_file(path, "is named by its manifest but missing") from error
        return replace(snapshot, counts=manifest.counts)
    return None


def _read_partitions(path: Root, manifest: Manifest) -> LoadSnapshot:
    """Return the partitions that a manifest names."""
    if isinstance(path, Path):
        return read_columns(path)
    named = (file.sha256 for file in manifest.files if file.name == PARTITIONS)
    return _fetch(path, next(named, ""))


@lru_cache(maxsize=1)
def _fetch(path: StorePath, sha256: str) -> LoadSnapshot:
    """Return the partitions in a store's object: once, as many look again before there are newer.

    Raises DocumentError when it is not the one that its manifest names.
    """
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise layout.damaged_file(path, "has another SHA-256 than its manifest says")
    return read_columns(path, content)


def read_live(root: Root, cluster_id: str) -> LoadSnapshot | None:
    """Return the collector's last interval; None when there is none, as in a store."""
    if not isinstance(root, Path):
        return None
    try:
        return read_columns(layout.live(root, cluster_id))
    except FileNotFoundError:
        return None


def read_table(path: Root, content: bytes | None = None) -> Any:
    """Return the table in a snapshot's Arrow file, mapped unless its content was read already.

    Raises FileNotFoundError, and DocumentError for a damaged file or a higher major version.
    """
    try:
        with pa.memory_map(str(path)) if content is None else pa.BufferReader(content) as source:
            table = pa.ipc.open_file(source).read_all()
    except FileNotFoundError:
        raise
    except columns.DAMAGED as error:
        raise layout.damaged_file(path, "is not a whole Arrow file") from error
    layout.check_format(columns.schema_metadata(table.schema).get("format", ""), FORMAT, path)
    return table


def read_columns(path: Root, content: bytes | None = None) -> LoadSnapshot:
    """Return the snapshot in an Arrow file; unknown columns are ignored.

    Takes and raises what `read_table` does.
    """
    table = read_table(path, content)
    head = columns.schema_metadata(table.schema)
    try:
        topic_of, topics = columns.to_codes(table["topic"])
        names = set(table.column_names)
        return LoadSnapshot(
            cluster_id=head["cluster_id"],
            snapshot_id=head["snapshot_id"],
            source=Source(head["source"]),
            published_at=parse_time(head["published_at"]),
            window_end=parse_time(head["window_end"]),
            topics=topics,
            topic_of=topic_of,
            partition=columns.to_numpy(table["partition"]),
            rates={
                (horizon, rate, statistic): columns.to_numpy(table[name])
                for horizon in HORIZONS
                for rate in RATES
                for statistic in STATISTICS
                if (name := rate_column(rate, horizon, statistic)) in names
            },
            size_bytes=columns.to_numpy(table["size_bytes"]),
            growth_bytes_per_s=columns.to_numpy(table["growth_bytes_per_s"]),
            quality=columns.to_numpy(table["quality"]),
            method=columns.to_numpy(table["method"]),
            brokers=tuple(
                from_known_fields(BrokerLoad, row) for row in parse_json(head["brokers"])
            ),
            metadata_hash=head["metadata_hash"] or None,
            leader=columns.to_numpy(table["leader"]) if "leader" in names else None,
        )
    except KeyError as error:
        raise layout.damaged_file(path, f"lacks {error}") from error
    except columns.DAMAGED as error:
        raise layout.damaged_file(path, "is damaged") from error


@dataclass(frozen=True, slots=True)
class FileProblem:
    """What is wrong with one file, and what to do about it."""

    path: Root
    problem: str
    next: str = layout.REPAIR


@dataclass(frozen=True, slots=True)
class SnapshotCheck:
    """What was found of a snapshot; `manifest` is None where it cannot be read."""

    snapshot_id: str | None
    manifest: Manifest | None
    problems: tuple[FileProblem, ...]


def verify_snapshot(
    root: Root, cluster_id: str, snapshot_id: str | None = None
) -> SnapshotCheck | None:
    """Read a snapshot, by default the newest, and all it names; None when there is none."""
    kept = snapshot_ids(root, cluster_id)
    newest = layout.current(root, cluster_id)
    path = manifest_path(root, cluster_id, snapshot_id)
    try:
        manifest = read_manifest(root, cluster_id, snapshot_id)
    except DocumentError as error:
        return SnapshotCheck(snapshot_id, None, (FileProblem(path, error.title, error.next),))
    if manifest is None:
        if snapshot_id is not None or not kept:
            return None
        why = f"{newest.name} is missing: nobody finds what was published."
        return SnapshotCheck(None, None, (FileProblem(newest, why),))
    problems = [] if snapshot_id else list(_check_newest(root, manifest))
    folder = layout.snapshots(root, cluster_id) / manifest.snapshot_id
    problems += (
        problem for file in manifest.files if (problem := _check_file(folder, manifest, file))
    )
    return SnapshotCheck(manifest.snapshot_id, manifest, tuple(problems))


def _check_newest(root: Root, newest: Manifest) -> Iterator[FileProblem]:
    """Yield what is wrong between the newest manifest and the one in its snapshot's folder."""
    path = manifest_path(root, newest.cluster_id, newest.snapshot_id)
    try:
        own = read_manifest(root, newest.cluster_id, newest.snapshot_id)
    except DocumentError as error:
        yield FileProblem(path, error.title, error.next)
        return
    if own is None:
        yield FileProblem(path, f"{path.name} is missing.")
    elif own != newest:
        current = layout.current(root, newest.cluster_id)
        yield FileProblem(current, f"{current.name} differs from the snapshot's own manifest.")


def _check_file(folder: Root, manifest: Manifest, file: DataFile) -> FileProblem | None:
    """Return the first thing that is wrong with one of a snapshot's files."""
    path = folder / file.name
    try:
        content = path.read_bytes()
        if len(content) != file.bytes:
            what = f"has {len(content)} bytes, and its manifest says {file.bytes}"
        elif hashlib.sha256(content).hexdigest() != file.sha256:
            what = "has another SHA-256 than its manifest says"
        elif (rows := len(read_table(path, content))) != file.rows:
            what = f"has {rows} rows, and its manifest says {file.rows}"
        else:
            is_partitions = file.name == PARTITIONS
            what = _file_mismatch(read_columns(path, content), manifest) if is_partitions else ""
    except FileNotFoundError:
        what = "is named by its manifest but missing"
    except DocumentError as error:
        return FileProblem(path, error.title, error.next)
    return FileProblem(path, f"{file.name} {what}.") if what else None


def _file_mismatch(snapshot: LoadSnapshot, manifest: Manifest) -> str:
    """Return what the partitions' file says otherwise than its manifest; "" for nothing."""
    if snapshot.cluster_id != manifest.cluster_id:
        return f"is of cluster {snapshot.cluster_id}"
    if snapshot.snapshot_id != manifest.snapshot_id:
        return f"is of snapshot {snapshot.snapshot_id}"
    same = snapshot.brokers == manifest.brokers
    return "" if same else "has other brokers' totals than its manifest"
