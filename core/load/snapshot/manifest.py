"""A snapshot's manifest and the index of clusters, read with the standard library alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Set
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from core import files, paths
from core.errors import DocumentError, UsageError
from core.load import load_paths as layout
from core.load.load import Source
from core.load.snapshot.format import BrokerLoad, Counts
from core.units import format_time, parse_time

FORMAT = "trimtab.snapshot/1"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a snapshot, as it was when it was published."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class HotPartition:
    """One of the partitions with the most traffic; `share` is its part of its leader's in + out."""

    topic: str
    partition: int
    leader: int | None
    in_bytes_per_s: float
    out_bytes_per_s: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class Skew:
    """How unequal the brokers are in one resource; None where nothing flows."""

    max_over_mean: float | None
    variation: float | None
    """Standard deviation over mean."""
    gini: float | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was published, when, from how many samples, and the brokers' totals."""

    cluster_id: str
    snapshot_id: str
    writer_epoch: int
    source: Source
    published_at: datetime
    window_end: datetime
    metadata_hash: str | None
    files: tuple[DataFile, ...]
    brokers: tuple[BrokerLoad, ...]
    hot_partitions: tuple[HotPartition, ...]
    topic_skew: Mapping[str, float]
    """Hottest partition over mean partition, of the topics where it is highest."""
    skew: Mapping[str, Skew]
    counts: Counts

    @property
    def source_lag_seconds(self) -> float:
        """Return how old the newest sample was when it was published."""
        return (self.published_at - self.window_end).total_seconds()

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **asdict(self),
            "source": self.source.value,
            "published_at": format_time(self.published_at),
            "window_end": format_time(self.window_end),
            "source_lag_seconds": self.source_lag_seconds,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], path: Path) -> Manifest:
        """Return the manifest in `document`; `path` is for the message.

        Raises DocumentError for another format, a higher major version or a missing key.
        """
        layout.check_format(document.get("format", ""), FORMAT, path)
        try:
            return cls(
                cluster_id=document["cluster_id"],
                snapshot_id=document["snapshot_id"],
                writer_epoch=document["writer_epoch"],
                source=Source(document["source"]),
                published_at=parse_time(document["published_at"]),
                window_end=parse_time(document["window_end"]),
                metadata_hash=document.get("metadata_hash"),
                files=tuple(from_known_fields(DataFile, row) for row in document["files"]),
                brokers=tuple(from_known_fields(BrokerLoad, row) for row in document["brokers"]),
                hot_partitions=tuple(
                    from_known_fields(HotPartition, row) for row in document["hot_partitions"]
                ),
                topic_skew=document["topic_skew"],
                skew={name: from_known_fields(Skew, row) for name, row in document["skew"].items()},
                counts=from_known_fields(Counts, document["counts"]),
            )
        except KeyError as error:
            raise layout.damaged_file(path, f"lacks {error}") from error
        except (TypeError, ValueError, AttributeError, UsageError) as error:
            raise layout.damaged_file(path, f"is damaged: {error}") from error


def from_known_fields(kind: Any, row: Mapping[str, Any]) -> Any:
    """Return the dataclass `kind` from `row`; keys that a later version added are ignored."""
    return kind(**{name: row[name] for name in kind.__slots__ if name in row})


def read_manifest(root: Path, cluster_id: str, snapshot_id: str | None = None) -> Manifest | None:
    """Return the newest snapshot's manifest, or that of `snapshot_id`; None when there is none.

    Raises DocumentError when it is damaged or of a higher major version.
    """
    if snapshot_id is None:
        path = layout.current(root, cluster_id)
    else:
        path = layout.snapshots(root, cluster_id) / snapshot_id / "manifest.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise layout.damaged_file(path, "is not JSON") from error
    if not isinstance(document, dict):
        raise layout.damaged_file(path, "is not a manifest")
    manifest = Manifest.from_json(document, path)
    names = (manifest.cluster_id, manifest.snapshot_id, *(file.name for file in manifest.files))
    if not all(map(_is_file_name, names)):
        raise layout.damaged_file(path, "names files that are not the snapshot's own")
    return manifest


def _is_file_name(name: object) -> bool:
    """Return whether a name leads nowhere else than its folder."""
    return isinstance(name, str) and name not in ("", ".", "..") and not {"/", "\0"} & {*name}


def snapshot_ids(root: Path, cluster_id: str) -> tuple[str, ...]:
    """Return the ids of the snapshots that are kept, oldest first."""
    folder = layout.snapshots(root, cluster_id)
    if not folder.is_dir():
        return ()
    return tuple(sorted(path.parent.name for path in folder.glob("[!.]*/manifest.json")))


INDEX_FORMAT = "trimtab.snapshots/1"


def cluster_ids(root: Path) -> tuple[str, ...]:
    """Return the clusters that have snapshots below this root.

    Raises DocumentError when the list is damaged.
    """
    try:
        document = json.loads(layout.index(root).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except ValueError as error:
        raise DocumentError(f"{layout.index(root)} is not JSON.", next=layout.REPAIR) from error
    found = document.get("clusters", []) if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise DocumentError(f"{layout.index(root)} is not a list of clusters.", next=layout.REPAIR)
    return tuple(sorted(found))


def forget_cluster(root: Path, cluster_id: str) -> None:
    """Remove all load of a cluster that nobody will meet again; nothing may be writing it."""
    update_index(root, lambda known: known - {cluster_id})
    folder = paths.cluster_folder(cluster_id)
    for place in (*root.glob(f"*/{folder}"), *root.glob(f"*/v*/{folder}")):
        shutil.rmtree(place, ignore_errors=True)
    for path in root.glob(f"*/{folder}.*"):
        path.unlink(missing_ok=True)


def update_index(root: Path, change: Callable[[Set[str]], Set[str]]) -> None:
    """Change which clusters are on the list; a damaged list begins anew."""
    with files.locked(root / "locks" / "index.lock"):
        try:
            known = frozenset(cluster_ids(root))
        except DocumentError:
            known = frozenset()
        if (changed := change(known)) != known:
            document = {"format": INDEX_FORMAT, "clusters": sorted(changed)}
            files.write_text(layout.index(root), json.dumps(document) + "\n")
