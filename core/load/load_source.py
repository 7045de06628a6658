"""Finds a cluster's load: Spark's snapshot, the collector's last interval, or a document's rates.

What it calls imports pyarrow when called, so a dashboard does it in a worker thread.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from core.cluster.known_names import own_name
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load import load_paths as layout
from core.load.load import Load, Source
from core.load.samples import latest_sample_time
from core.load.snapshot.format import LoadSnapshot
from core.load.snapshot.kept import Kept
from core.load.store import Root

if TYPE_CHECKING:
    from core.cluster.documents.cluster_document import ClusterDocument

MAX_SNAPSHOT_LAG = timedelta(minutes=5)
"""A snapshot this much older than the live interval tells nothing of the same time."""


def newest_snapshot(cluster_id: str, snapshots_path: str | None = None) -> LoadSnapshot | None:
    """Return what was published last, or the live interval when that is all there is.

    A snapshot from an earlier session, more than 5 minutes older than the live interval, gives
    way to it, what lies in the future (a clock was ahead) to what does not, and what knows no
    rates to what does. Raises DocumentError for a damaged snapshot or one of a higher format
    version; of a store, as `core.load.store.StorePath` does, and UsageError when it has none.
    """
    from core.load.snapshot.reader import read_live, read_snapshot

    root = layout.root_of(snapshots_path)
    read = (read_snapshot(root, cluster_id), read_live(root, cluster_id))
    snapshots = [snapshot for snapshot in read if snapshot is not None]
    if not snapshots and not isinstance(root, Path):
        raise UsageError(
            f"There is no snapshot of cluster {own_name(cluster_id)} in {root}.",
            next="Check the address given as --snapshots, or wait until the pipeline publishes.",
        )
    last = latest_sample_time(datetime.now(UTC))
    snapshots = [snapshot for snapshot in snapshots if snapshot.window_end <= last] or snapshots
    snapshots = [snapshot for snapshot in snapshots if snapshot.has_rates] or snapshots
    if (
        len(snapshots) == 2
        and snapshots[1].window_end - snapshots[0].window_end <= MAX_SNAPSHOT_LAG
    ):
        return snapshots[0]
    return snapshots[-1] if snapshots else None


def version(root: Root, cluster_id: str) -> tuple[str | None, int | None]:
    """Return what is another whenever there may be a newer snapshot, or a newer live interval.

    Raises as `core.load.snapshot.manifest.read_manifest` does.
    """
    from core.load.snapshot.manifest import read_manifest

    manifest = read_manifest(root, cluster_id)
    live = layout.live(root, cluster_id) if isinstance(root, Path) else None
    return (
        manifest.snapshot_id if manifest else None,
        live.stat().st_mtime_ns if live is not None and live.exists() else None,
    )


def newest_load(state: ClusterState, snapshots_path: str | None = None) -> Load:
    """Return the newest load laid upon `state`; all unknown when there is none."""
    snapshot = newest_snapshot(state.cluster_id, snapshots_path)
    return Load.unknown(state) if snapshot is None else snapshot.aligned(state)


def past_load(
    root: Root, cluster_id: str, state: ClusterState, moment: datetime, kept: Kept
) -> tuple[Load | None, LoadSnapshot | None]:
    """Return what partitions carried at a moment, and the snapshot that was the newest then.

    The load is that snapshot's where it is of the five minutes before, else that of the 5-minute
    window of the moment where it is kept, else the snapshot's all the same; None where neither is
    kept. Raises DocumentError for a damaged file.
    """
    from core.load.snapshot.reader import read_snapshot
    from core.load.windows import load_at

    newest = kept.at(moment)
    snapshot = None
    if newest is not None:
        snapshot = read_snapshot(root, cluster_id, newest.snapshot_id)
    if snapshot is not None and moment - snapshot.window_end <= MAX_SNAPSHOT_LAG:
        return snapshot.aligned(state), snapshot
    load = load_at(root, cluster_id, state, moment)
    if load is None and snapshot is not None:
        load = snapshot.aligned(state)
    return load, snapshot


def read_saved_cluster(path: Path) -> tuple[ClusterState, Load]:
    """Return a saved cluster document's state and the rates it carries; raises DocumentError."""
    from core.cluster.documents.reader import read_document

    document = read_document(path)
    return document.state, document_load(document)


def document_load(document: ClusterDocument) -> Load:
    """Return the rates that a cluster document carries."""
    state = document.state
    return Load(
        in_bytes_per_s=document.in_bytes_per_s,
        out_bytes_per_s=document.out_bytes_per_s,
        messages_per_s=Load.unknown(state).messages_per_s,
        source=Source.DOCUMENT,
        as_of=state.fetched_at,
    )
