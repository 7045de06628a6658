"""A snapshot's manifest, what it adds up, and the index of clusters."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from core import files, paths
from core.cluster.state import ClusterState, Int32, Int64
from core.errors import DocumentError, UsageError
from core.load import load_paths as layout
from core.load.load import Float64, Source
from core.load.snapshot.format import BrokerLoad, Counts, LoadSnapshot
from core.load.store import Root, write_text
from core.text.json_text import from_known_fields, parse_json
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
            **fields_of(self),
            "source": self.source.value,
            "published_at": format_time(self.published_at),
            "window_end": format_time(self.window_end),
            "files": list(map(fields_of, self.files)),
            "brokers": list(map(fields_of, self.brokers)),
            "hot_partitions": list(map(fields_of, self.hot_partitions)),
            "skew": {name: fields_of(skew) for name, skew in self.skew.items()},
            "counts": fields_of(self.counts),
            "source_lag_seconds": self.source_lag_seconds,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], path: Root) -> Manifest:
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
        except UsageError as error:
            raise layout.damaged_file(path, f"is damaged: {error.title.rstrip('.')}") from error
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise layout.damaged_file(path, f"is damaged: {error}") from error


def fields_of(row: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as they are; `asdict` would copy all that is in them."""
    return {name: getattr(row, name) for name in row.__slots__}


def manifest_path(root: Root, cluster_id: str, snapshot_id: str | None = None) -> Root:
    """Return where the newest snapshot's manifest is, or that of `snapshot_id`."""
    if snapshot_id is None:
        return layout.current(root, cluster_id)
    return layout.snapshots(root, cluster_id) / snapshot_id / "manifest.json"


def read_manifest(root: Root, cluster_id: str, snapshot_id: str | None = None) -> Manifest | None:
    """Return the newest snapshot's manifest, or that of `snapshot_id`; None when there is none.

    Raises DocumentError when it is damaged or of a higher major version; of a store, as
    `core.load.store.StorePath` does.
    """
    path = manifest_path(root, cluster_id, snapshot_id)
    try:
        document = _read_json(path)
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


MAX_NAME_BYTES = 255


def _is_file_name(name: object) -> bool:
    """Return whether a name leads nowhere else than its folder, and file systems take it."""
    if not isinstance(name, str) or not name.isprintable() or "/" in name:
        return False
    return name not in ("", ".", "..") and len(name.encode()) <= MAX_NAME_BYTES


REPLACED_TRIES, REPLACED_SECONDS = 5, 0.2
"""How often and after what time a document is read again that a store is just being given anew."""


def _read_json(path: Root) -> Any:
    """Return a small document; one that is replaced while a store gives it out is read again.

    An empty object is as none: pyarrow makes one first on Azure, and its writer died.
    """
    for _ in range(0 if isinstance(path, Path) else REPLACED_TRIES - 1):
        try:
            return parse_json(path.read_text(encoding="utf-8"))
        except ValueError:
            time.sleep(REPLACED_SECONDS)
    text = path.read_text(encoding="utf-8")
    if not text and not isinstance(path, Path):
        raise FileNotFoundError(str(path))
    return parse_json(text)


def snapshot_ids(root: Root, cluster_id: str) -> tuple[str, ...]:
    """Return the ids of the snapshots that are kept, oldest first."""
    folder = layout.snapshots(root, cluster_id)
    if not isinstance(folder, Path):
        parts = (name.partition("/") for name in folder.files())
        return tuple(sorted(name for name, _, file in parts if file == "manifest.json"))
    if not folder.is_dir():
        return ()
    return tuple(sorted(path.parent.name for path in folder.glob("[!.]*/manifest.json")))


INDEX_FORMAT = "trimtab.snapshots/1"


def cluster_ids(root: Root) -> tuple[str, ...]:
    """Return the clusters that have snapshots below this root.

    Raises DocumentError when the list is damaged; of a store, as `read_manifest` does.
    """
    try:
        document = _read_json(layout.index(root))
    except FileNotFoundError:
        return ()
    except ValueError as error:
        raise DocumentError(f"{layout.index(root)} is not JSON.", next=layout.REPAIR) from error
    clusters = document.get("clusters", []) if isinstance(document, dict) else None
    if not isinstance(clusters, list) or not all(isinstance(name, str) for name in clusters):
        raise DocumentError(f"{layout.index(root)} is not a list of clusters.", next=layout.REPAIR)
    return tuple(sorted(clusters))


def forget_cluster(root: Path, cluster_id: str) -> None:
    """Remove all load of a cluster that nobody will meet again; nothing may be writing it."""
    update_index(root, lambda known: known - {cluster_id})
    folder = paths.cluster_folder(cluster_id)
    for place in (*root.glob(f"*/{folder}"), *root.glob(f"*/v*/{folder}")):
        shutil.rmtree(place, ignore_errors=True)
    for path in root.glob(f"*/{folder}.*"):
        path.unlink(missing_ok=True)


def update_index(root: Root, change: Callable[[Set[str]], Set[str]]) -> None:
    """Change which clusters are on the list; a damaged list begins anew.

    A store has no locks: of two writers that add theirs at the same moment one is left out, until
    it publishes again.
    """
    lock = files.locked(root / "locks" / "index.lock") if isinstance(root, Path) else nullcontext()
    with lock:
        try:
            known = frozenset(cluster_ids(root))
        except DocumentError:
            known = frozenset()
        if (changed := change(known)) != known:
            document = {"format": INDEX_FORMAT, "clusters": sorted(changed)}
            write_text(layout.index(root), json.dumps(document) + "\n")


def broker_loads(
    *,
    leader: Int32,
    replica_start: Int64,
    replica_broker: Int32,
    replica_size: Int64,
    in_bytes_per_s: Float64,
    out_bytes_per_s: Float64,
    brokers: Iterable[int] = (),
) -> tuple[BrokerLoad, ...]:
    """Return each broker's load, ascending by id; `brokers` adds ones that hold nothing.

    Followers fetch what leaders receive: follower_in is the sum of in over hosted followers, and
    out is what consumers read plus in for every other replica. A total in which nothing is known
    is None; unknown parts of a known one count as nothing.
    """
    partition = np.repeat(np.arange(len(leader)), np.diff(replica_start))
    ids = np.union1d(np.union1d(replica_broker, leader[leader >= 0]), np.array([*brokers], int))
    follows = replica_broker != leader[partition]
    followers = np.bincount(partition[follows], minlength=len(leader))
    leader_index = np.searchsorted(ids, leader[leader >= 0])
    held_at = np.searchsorted(ids, replica_broker)
    inward, outward = in_bytes_per_s[leader >= 0], out_bytes_per_s[leader >= 0]
    leader_in = _group_sums(leader_index, inward, len(ids))
    consumed = _group_sums(leader_index, outward, len(ids))
    fed = _group_sums(leader_index, inward * followers[leader >= 0], len(ids))
    follower_in = _group_sums(held_at[follows], in_bytes_per_s[partition[follows]], len(ids))
    size = _group_sums(held_at, np.where(replica_size < 0, np.nan, replica_size), len(ids))
    leaders = np.bincount(leader_index, minlength=len(ids))
    held = np.bincount(held_at, minlength=len(ids))
    return tuple(
        BrokerLoad(
            broker=broker,
            leader_in_bytes_per_s=leader_in[i],
            follower_in_bytes_per_s=follower_in[i],
            out_bytes_per_s=_sum_known(consumed[i], fed[i]),
            size_bytes=None if (stored := size[i]) is None else round(stored),
            leaders=int(leaders[i]),
            replicas=int(held[i]),
        )
        for i, broker in enumerate(ids.tolist())
    )


def state_broker_loads(
    state: ClusterState, in_bytes_per_s: Float64, out_bytes_per_s: Float64
) -> tuple[BrokerLoad, ...]:
    """Return every broker's load of this state, given each partition's rates, [P]."""
    return broker_loads(
        leader=state.leader,
        replica_start=state.replica_start,
        replica_broker=state.replica_broker,
        replica_size=state.size_bytes,
        in_bytes_per_s=in_bytes_per_s,
        out_bytes_per_s=out_bytes_per_s,
        brokers=[broker.id for broker in state.brokers],
    )


def _group_sums(at: Int64, values: Float64, count: int) -> list[float | None]:
    """Return the sum of the known values of each group; None where there are only unknown ones."""
    known = ~np.isnan(values)
    total = np.bincount(at[known], weights=values[known], minlength=count)
    some_known = np.bincount(at[known], minlength=count) > 0
    has_rows = np.bincount(at, minlength=count) > 0
    return [None if has_rows[i] and not some_known[i] else float(total[i]) for i in range(count)]


HOTTEST = 200
SKEWED_TOPICS = 50


def hot_partitions(snapshot: LoadSnapshot) -> tuple[HotPartition, ...]:
    """Return the partitions with the most traffic in and out over 5 minutes, hottest first."""
    inward = snapshot.rate("in_bytes_per_s")
    outward = snapshot.rate("out_bytes_per_s")
    traffic = np.nan_to_num(inward) + np.nan_to_num(outward)
    leader = snapshot.leader
    by_leader: dict[int, float] = {}
    if leader is not None:
        for broker in np.unique(leader).tolist():
            by_leader[broker] = float(traffic[leader == broker].sum())
    hottest = np.argsort(-traffic, kind="stable")[:HOTTEST]
    rows = []
    for i in hottest[~np.isnan(inward[hottest])].tolist():
        by = int(leader[i]) if leader is not None and leader[i] >= 0 else None
        total = by_leader.get(by, 0.0) if by is not None else 0.0
        rows.append(
            HotPartition(
                topic=snapshot.topics[int(snapshot.topic_of[i])],
                partition=int(snapshot.partition[i]),
                leader=by,
                in_bytes_per_s=float(inward[i]),
                out_bytes_per_s=None if np.isnan(outward[i]) else float(outward[i]),
                share=float(traffic[i]) / total if total > 0 else None,
            )
        )
    return tuple(rows)


def topic_skew(snapshot: LoadSnapshot) -> Mapping[str, float]:
    """Return hottest partition over mean partition by topic, the most skewed topics first."""
    inward = snapshot.rate("in_bytes_per_s")
    known = ~np.isnan(inward)
    size = len(snapshot.topics)
    partitions = np.bincount(snapshot.topic_of[known], minlength=size)
    total = np.bincount(snapshot.topic_of[known], weights=inward[known], minlength=size)
    hottest = np.zeros(size)
    np.maximum.at(hottest, snapshot.topic_of[known], inward[known])
    has_traffic = total > 0
    ratio = np.zeros(size)
    ratio[has_traffic] = hottest[has_traffic] * partitions[has_traffic] / total[has_traffic]
    order = [i for i in np.argsort(-ratio, kind="stable").tolist() if has_traffic[i]]
    return {snapshot.topics[i]: float(ratio[i]) for i in order[:SKEWED_TOPICS]}


def broker_skew(brokers: tuple[BrokerLoad, ...]) -> Mapping[str, Skew]:
    """Return how unequal the brokers are in traffic in, traffic out and size."""
    return {
        "in_bytes_per_s": resource_skew(
            [_sum_known(b.leader_in_bytes_per_s, b.follower_in_bytes_per_s) for b in brokers]
        ),
        "out_bytes_per_s": resource_skew([b.out_bytes_per_s for b in brokers]),
        "size_bytes": resource_skew([b.size_bytes for b in brokers]),
    }


def resource_skew(values: list[float | None] | list[int | None]) -> Skew:
    """Return the skew of the known values; all None where they are none or sum to nothing."""
    known = np.sort(np.array([value for value in values if value is not None], np.float64))
    total = float(known.sum())
    if len(known) == 0 or total <= 0:
        return Skew(None, None, None)
    mean = total / len(known)
    rank = np.arange(1, len(known) + 1)
    gini = float((2 * rank - len(known) - 1) @ known) / (len(known) * total)
    return Skew(float(known[-1]) / mean, float(known.std()) / mean, gini)


def _sum_known(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
