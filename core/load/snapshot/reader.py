"""Reads published snapshots, and verifies that one is as it was published.

The manifest first, then the files that it names, mapped. Import this module late: it imports
pyarrow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    from_known_fields,
    read_manifest,
    snapshot_ids,
)
from core.units import parse_time


def read_snapshot(
    root: Path, cluster_id: str, snapshot_id: str | None = None
) -> LoadSnapshot | None:
    """Return a snapshot of a cluster, by default the newest; None when there is none.

    Raises DocumentError when it is damaged or of a higher major version.
    """
    for last_try in (False, True):
        manifest = read_manifest(root, cluster_id, snapshot_id)
        if manifest is None:
            return None
        path = layout.snapshots(root, cluster_id) / manifest.snapshot_id / PARTITIONS
        try:
            snapshot = read_columns(path)
        except FileNotFoundError as error:
            # Between manifest and files, it may have been replaced, or deleted as too old.
            if last_try:
                raise layout.damaged_file(path, "is named by its manifest but missing") from error
            continue
        return replace(snapshot, counts=manifest.counts)
    return None


def read_live(root: Path, cluster_id: str) -> LoadSnapshot | None:
    """Return the collector's last interval; None when there is none."""
    try:
        return read_columns(layout.live(root, cluster_id))
    except FileNotFoundError:
        return None


def read_table(path: Path) -> Any:
    """Return the table in a snapshot's Arrow file, mapped rather than read.

    Raises FileNotFoundError, and DocumentError for a damaged file or a higher major version.
    """
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    except FileNotFoundError:
        raise
    except columns.DAMAGED as error:
        raise layout.damaged_file(path, "is not a whole Arrow file") from error
    layout.check_format(columns.schema_metadata(table.schema).get("format", ""), FORMAT, path)
    return table


def read_columns(path: Path) -> LoadSnapshot:
    """Return the snapshot in an Arrow file; unknown columns are ignored.

    Raises as `read_table` does.
    """
    table = read_table(path)
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
                from_known_fields(BrokerLoad, row) for row in json.loads(head["brokers"])
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

    path: Path
    problem: str
    next: str = layout.REPAIR


@dataclass(frozen=True, slots=True)
class SnapshotCheck:
    """What was found of a snapshot; `manifest` is None where it cannot be read."""

    snapshot_id: str | None
    manifest: Manifest | None
    problems: tuple[FileProblem, ...]


def verify_snapshot(
    root: Path, cluster_id: str, snapshot_id: str | None = None
) -> SnapshotCheck | None:
    """Read a snapshot, by default the newest, and all it names; None when there is none."""
    kept = snapshot_ids(root, cluster_id)
    newest = layout.current(root, cluster_id)
    path = newest if snapshot_id is None else _manifest_of(root, cluster_id, snapshot_id)
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
    problems += (found for file in manifest.files if (found := _check_file(folder, manifest, file)))
    return SnapshotCheck(manifest.snapshot_id, manifest, tuple(problems))


def _manifest_of(root: Path, cluster_id: str, snapshot_id: str) -> Path:
    return layout.snapshots(root, cluster_id) / snapshot_id / "manifest.json"


def _check_newest(root: Path, newest: Manifest) -> Iterator[FileProblem]:
    """Yield what is wrong between the newest manifest and the one in its snapshot's folder."""
    path = _manifest_of(root, newest.cluster_id, newest.snapshot_id)
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


def _check_file(folder: Path, manifest: Manifest, file: DataFile) -> FileProblem | None:
    """Return the first thing that is wrong with one of a snapshot's files."""
    path = folder / file.name
    try:
        with path.open("rb") as content:
            size = path.stat().st_size
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if size != file.bytes:
            what = f"has {size} bytes, and its manifest says {file.bytes}"
        elif digest != file.sha256:
            what = "has another SHA-256 than its manifest says"
        elif (rows := len(read_table(path))) != file.rows:
            what = f"has {rows} rows, and its manifest says {file.rows}"
        else:
            what = _column_problem(path, manifest) if file.name == PARTITIONS else ""
    except FileNotFoundError:
        what = "is named by its manifest but missing"
    except DocumentError as error:
        return FileProblem(path, error.title, error.next)
    return FileProblem(path, f"{file.name} {what}.") if what else None


def _column_problem(path: Path, manifest: Manifest) -> str:
    """Return what the partitions' file says otherwise than its manifest; "" for nothing."""
    snapshot = read_columns(path)
    if snapshot.cluster_id != manifest.cluster_id:
        return f"is of cluster {snapshot.cluster_id}"
    if snapshot.snapshot_id != manifest.snapshot_id:
        return f"is of snapshot {snapshot.snapshot_id}"
    same = snapshot.brokers == manifest.brokers
    return "" if same else "has other brokers' totals than its manifest"
