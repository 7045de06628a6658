"""Publishes a cluster's load anew from the segments that are kept, after damage below its root.

Segments are played aside, in a load root of their own; what came of them is moved in once it is
whole, so that readers have what was published before until then. Cut off while it is moved in, it
is to be run again: no segment is given up. The caller holds the pipeline's lease.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from core import files
from core.clock import Clock
from core.errors import DocumentError, NewerFormatError, UsageError
from core.load import load_paths as layout
from core.load import spool
from core.load.snapshot.manifest import Manifest, read_manifest
from core.load.windows import LENGTH, window_floor
from core.pipeline.job import Job, take_away
from core.pipeline.publish import Published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came of it: the snapshot, how many windows were made anew, and from what."""

    manifest: Manifest | None
    windows: int
    since: datetime | None
    """When the first of them starts."""
    segments: int
    left_out: int
    """Segments that are damaged."""


def rebuild(
    spark: SparkSession,
    root: Path,
    cluster_id: str,
    clock: Clock,
    report: Callable[[list[Published]], None] = lambda _: None,
) -> Rebuilt:
    """Play the segments that are kept, and publish what they say instead of what is there.

    Windows from before the oldest segment stay as they are. Raises UsageError without segments,
    DocumentError where a newer trimtab has published.
    """
    layout.mark(root)
    _is_damaged(root, cluster_id)
    kept = spool.list_segments(root, cluster_id)
    first = _first_window(cluster_id, kept)
    if first is None:
        raise UsageError(
            f"No segment is kept of {cluster_id} that a window can be made of again.",
            next="Run `trimtab collect`, then `trimtab pipeline once`.",
        )
    with _aside(root, cluster_id) as aside:
        for place, segment in kept.items():
            link = layout.spool(aside, cluster_id) / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(segment)
        Job(spark, aside, cluster_id, clock, report).once()
        bad = {path.name for path in layout.quarantine(aside, cluster_id).glob("*/*.parquet")}
        windows = _install_rebuild(aside, root, cluster_id, first)
        for segment in kept.values():
            if segment.is_relative_to(layout.spool(root, cluster_id)) and segment.name not in bad:
                spool.archive_segment(root, cluster_id, segment)
    if _is_damaged(root, cluster_id):
        layout.current(root, cluster_id).unlink()
    Job(spark, root, cluster_id, clock).publish()
    manifest = read_manifest(root, cluster_id)
    since = windows[0] if windows else None
    return Rebuilt(manifest, len(windows), since, len(kept) - len(bad), len(bad))


def _is_damaged(root: Path, cluster_id: str) -> bool:
    """Return whether the newest manifest cannot be read; raises DocumentError for a newer one."""
    try:
        read_manifest(root, cluster_id)
    except NewerFormatError:
        raise
    except DocumentError:
        return True
    return False


@contextmanager
def _aside(root: Path, cluster_id: str) -> Iterator[Path]:
    """Give an empty load root beside the cluster's own files; it goes whatever happens."""
    aside = layout.rebuilding(root, cluster_id)
    shutil.rmtree(aside, ignore_errors=True)  # of one that was killed
    aside.mkdir(parents=True)
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        files.remove_empty(aside.parent)


def _first_window(cluster_id: str, kept: Mapping[Path, Path]) -> datetime | None:
    """Return when the window of the oldest segment starts that can be read; None of none."""
    for hour in sorted({place.parent for place in kept}):
        of_hour = (path for place, path in kept.items() if place.parent == hour)
        taken_at = [
            spool.sample_time(path)
            for path in of_hour
            if spool.check_segment(path, cluster_id) is None
        ]
        if taken_at:
            return window_floor(min(taken_at))
    return None


def _install_rebuild(aside: Path, root: Path, cluster_id: str, first: datetime) -> list[datetime]:
    """Move what came of the segments to where readers and the next job look; return its windows.

    What is carried from batch to batch comes first: windows that were then not moved in are old,
    and never have a batch twice. Where windows were published before the first one, older segments
    may have told of it, too: it stays as it is.
    """
    around = (layout.window_file(root, cluster_id, at) for at in (first - LENGTH, first))
    stays = all(path.exists() for path in around)
    before = aside / "before"
    before.mkdir()
    for place in (layout.batches, layout.tables):
        old, new = place(root, cluster_id), place(aside, cluster_id)
        old.parent.mkdir(parents=True, exist_ok=True)
        if old.exists():
            old.rename(before / old.parent.parent.name)
        new.rename(old)
        files.sync(old.parent)
    if layout.checkpoint(root, cluster_id).exists():
        take_away(layout.checkpoint(root, cluster_id))
    moved: set[datetime] = set()
    for path in sorted(layout.windows(aside, cluster_id).glob("date=*/?5m-*.parquet")):
        below = path.relative_to(layout.windows(aside, cluster_id))
        target = layout.windows(root, cluster_id) / below
        start = layout.window_start(path)
        if start > first or not stays:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
            moved.add(start)
    return sorted(moved)
