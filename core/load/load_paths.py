"""Paths below a load root, one function for each kind of file, and the root's format mark."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from core import files
from core.errors import DocumentError, NewerFormatError, UsageError
from core.load.store import Root, StorePath, store_of
from core.paths import cluster_folder, expand_user, load_root
from core.text.json_text import parse_json

FORMAT = "trimtab.load/1"
EVERY, TOPIC_PREFIX = "all", "topic-"
"""Names of pipelines that are of many clusters: of all spools, of a topic. They have folders and
leases as a cluster has."""

REPAIR = "Move it away: the next snapshot is whole again (`trimtab pipeline rebuild` makes one)."
"""What to do about a damaged file below a load root."""

AnyRoot = TypeVar("AnyRoot", Path, StorePath, Path | StorePath)
"""A folder below which all of the layout is, or a place in a store that has snapshots only."""


def incoming(root: Path) -> Path:
    """Return where segments land before the gate has looked at them."""
    return root / "incoming"


def spools(root: Path) -> Path:
    """Return where the spools of all clusters are."""
    return root / "spool"


def spool(root: Path, cluster_id: str) -> Path:
    return root / "spool" / cluster_folder(cluster_id)


def archive(root: Path, cluster_id: str) -> Path:
    """Return where segments go once two later batches have been committed."""
    return root / "archive" / cluster_folder(cluster_id)


def rebuilding(root: Path, cluster_id: str) -> Path:
    """Return the load root that segments are played in once more, while they are."""
    return root / "rebuild" / cluster_folder(cluster_id)


def quarantine(root: Path, cluster_id: str) -> Path:
    return root / "quarantine" / cluster_folder(cluster_id)


def checkpoint(root: Path, cluster_id: str) -> Path:
    return root / "checkpoint" / "v2" / cluster_folder(cluster_id)


def batches(root: Path, cluster_id: str) -> Path:
    """Return where the pipeline notes what became of each batch."""
    return root / "batches" / "v2" / cluster_folder(cluster_id)


def tables(root: Path, cluster_id: str) -> Path:
    """Return where the pipeline keeps what it carries from batch to batch."""
    return root / "tables" / "v1" / cluster_folder(cluster_id)


def windows(root: Path, cluster_id: str) -> Path:
    return root / "windows" / "v1" / cluster_folder(cluster_id)


def window_file(root: Path, cluster_id: str, start: datetime) -> Path:
    """Return the file of the 5-minute window that starts at `start`."""
    utc = start.astimezone(UTC)
    return windows(root, cluster_id) / f"date={utc:%Y-%m-%d}" / f"w5m-{utc:%H%M}.parquet"


def broker_file(root: Path, cluster_id: str, start: datetime) -> Path:
    """Return the file of the brokers' totals in the window that starts at `start`."""
    utc = start.astimezone(UTC)
    return windows(root, cluster_id) / f"date={utc:%Y-%m-%d}" / f"b5m-{utc:%H%M}.parquet"


def window_start(path: Path) -> datetime:
    """Return when the window of a window or broker file starts."""
    date = path.parent.name.removeprefix("date=")
    return datetime.strptime(f"{date} {path.stem[-4:]}", "%Y-%m-%d %H%M").replace(tzinfo=UTC)


def snapshots(root: AnyRoot, cluster_id: str) -> AnyRoot:
    return root / "snapshots" / cluster_folder(cluster_id)


def current(root: AnyRoot, cluster_id: str) -> AnyRoot:
    """Return the manifest of the newest snapshot."""
    return snapshots(root, cluster_id) / "CURRENT.json"


def epoch(root: AnyRoot, cluster_id: str) -> AnyRoot:
    """Return where it is said which writer of a cluster's snapshots is the newest."""
    return snapshots(root, cluster_id) / "EPOCH"


def index(root: AnyRoot) -> AnyRoot:
    """Return the list of clusters that have snapshots."""
    return root / "snapshots" / "INDEX.json"


def live(root: Path, cluster_id: str) -> Path:
    """Return the collector's last interval."""
    return root / "live" / f"{cluster_folder(cluster_id)}.arrow"


def clients(root: Path, cluster_id: str) -> Path:
    """Return the last report of the cluster's probe, while one runs."""
    return root / "clients" / f"{cluster_folder(cluster_id)}.json"


def clients_trouble(root: Path, cluster_id: str) -> Path:
    """Return where the probe says why it ended."""
    return root / "clients" / f"{cluster_folder(cluster_id)}.trouble"


def trouble(root: Path, cluster_id: str) -> Path:
    """Return where the pipeline says why it ended."""
    return root / "readers" / f"{cluster_folder(cluster_id)}.pipeline.trouble"


def read_trouble(path: Path) -> str | None:
    """Return why a process ended, in its own words; None when it has left nothing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except FileNotFoundError:
        return None


def mark(root: Path) -> None:
    """Write the root's format mark where there is none.

    Raises DocumentError when a newer trimtab wrote this root.
    """
    path = root / "format.json"
    try:
        written = parse_json(path.read_text(encoding="utf-8")).get("format", "")
    except FileNotFoundError:
        files.write_text(path, json.dumps({"format": FORMAT}) + "\n")
        return
    except (ValueError, AttributeError):
        written = ""
    check_format(written, FORMAT, path)


def own_root() -> Path:
    """Return this machine's load root, with its format mark; raises as `mark`."""
    root = load_root()
    mark(root)
    return root


def damaged_file(path: Root, what: str) -> DocumentError:
    """Return the error of a file below a load root that `what` is wrong with."""
    return DocumentError(f"{path.name} {what}.", detail=str(path), next=REPAIR)


def check_format(written: str, known: str, path: Root) -> None:
    """Raise DocumentError when `written` is another kind of document or a higher major version."""
    kind, _, major = str(written).partition("/")
    known_kind, _, known_major = known.partition("/")
    if kind != known_kind or not re.fullmatch("[0-9]{1,9}", major):
        raise damaged_file(path, f"is not a {known_kind} file")
    if int(major) > int(known_major):
        raise NewerFormatError(
            f"{path.name} has format {written}; this trimtab reads up to {known}.",
            detail=str(path),
            next=f"Install a trimtab that reads {kind}/{major}.",
        )


def root_of(path: str | None) -> Root:
    """Return the load root that `--snapshots PATH` means, or its folder `snapshots`; else our own.

    An address (`s3://…`) means a place in an object store, which is not asked yet. Raises
    UsageError when there is no such folder.
    """
    if path is None:
        return load_root()
    if is_address(path):
        return store_of(path)
    folder = expand_user(path)
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", next="Name the root of load data.")
    return folder.parent if (folder / "INDEX.json").exists() else folder


def is_address(path: str) -> bool:
    """Return whether this is a store's address, and no folder's path."""
    return "://" in path
