"""Whether a published snapshot is as it was published: its manifest, and every file it names.

Read as the dashboard reads it, and beyond that byte by byte. Import this module late: it imports
pyarrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import DocumentError
from core.load import load_paths as layout
from core.load.snapshot.format import PARTITIONS
from core.load.snapshot.manifest import DataFile, Manifest, read_manifest, snapshot_ids
from core.load.snapshot.reader import read_columns, read_table


@dataclass(frozen=True, slots=True)
class FileProblem:
    """What is wrong with one file, and what to do about it."""

    path: Path
    problem: str
    next: str


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
        return SnapshotCheck(snapshot_id, None, (_problem_of_error(path, error),))
    if manifest is None:
        if snapshot_id is not None or not kept:
            return None
        lost = _problem(newest, f"{newest.name} is missing: nobody finds what was published.")
        return SnapshotCheck(None, None, (lost,))
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
        yield _problem_of_error(path, error)
        return
    if own is None:
        yield _problem(path, f"{path.name} is missing.")
    elif own != newest:
        current = layout.current(root, newest.cluster_id)
        yield _problem(current, f"{current.name} differs from the snapshot's own manifest.")


def _check_file(folder: Path, manifest: Manifest, file: DataFile) -> FileProblem | None:
    """Return the first thing that is wrong with one of a snapshot's files."""
    path = folder / file.name
    try:
        with path.open("rb") as content:
            size = path.stat().st_size
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if size != file.bytes:
            return _problem(
                path, f"{file.name} has {size} bytes, and its manifest says {file.bytes}."
            )
        if digest != file.sha256:
            return _problem(path, f"{file.name} has another SHA-256 than its manifest says.")
        rows = len(read_table(path))
        if rows != file.rows:
            return _problem(
                path, f"{file.name} has {rows} rows, and its manifest says {file.rows}."
            )
        return _check_columns(path, manifest) if file.name == PARTITIONS else None
    except FileNotFoundError:
        return _problem(path, f"{file.name} is named by its manifest but missing.")
    except DocumentError as error:
        return _problem_of_error(path, error)


def _check_columns(path: Path, manifest: Manifest) -> FileProblem | None:
    """Return what the partitions' file says otherwise than its manifest."""
    found = read_columns(path)
    if found.cluster_id != manifest.cluster_id:
        return _problem(path, f"{path.name} is of cluster {found.cluster_id}.")
    if found.snapshot_id != manifest.snapshot_id:
        return _problem(path, f"{path.name} is of snapshot {found.snapshot_id}.")
    if found.brokers != manifest.brokers:
        return _problem(path, f"{path.name} has other brokers' totals than its manifest.")
    return None


def _problem(path: Path, problem: str) -> FileProblem:
    return FileProblem(path, problem, layout.REPAIR)


def _problem_of_error(path: Path, error: DocumentError) -> FileProblem:
    return FileProblem(path, error.title, error.next)
