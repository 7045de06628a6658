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
from core.pipeline import checkpoint
from core.pipeline.job import Job, Published
from core.pipeline.ledger import Ledger

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
    tell: Callable[[Published], None] = lambda _: None,
) -> Rebuilt:
    """Play the segments that are kept, and publish what they say instead of what is there.

    Windows from before the oldest segment stay as they are. Raises UsageError without segments,
    DocumentError where a newer trimtab has published.
    """
    layout.mark(root)
    _is_damaged(root, cluster_id)
    kept = spool.list_segments(root, cluster_id)
    whole = _whole(root, cluster_id, kept)
    if not whole:
        raise UsageError(
            f"No segment is kept of {cluster_id} that a window can be made of again.",
            next="Run `trimtab collect`, then `trimtab pipeline once`.",
        )
    with _aside(root, cluster_id) as aside:
        for place, segment in whole.items():
            link = layout.spool(aside, cluster_id) / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(segment)
        Job(spark, aside, cluster_id, clock, tell).once()
        taken = _taken(aside, cluster_id)
        windows = _move_in(aside, root, cluster_id)
        for place, segment in kept.items():
            waits = segment.is_relative_to(layout.spool(root, cluster_id))
            if waits and (place not in whole or segment.name in taken):
                spool.archive_segment(root, cluster_id, segment)
    if _is_damaged(root, cluster_id):
        layout.current(root, cluster_id).unlink()
    manifest = Job(spark, root, cluster_id, clock).publish()
    return Rebuilt(
        manifest, len(windows), windows[0] if windows else None, len(taken), len(whole) - len(taken)
    )


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


def _taken(aside: Path, cluster_id: str) -> frozenset[str]:
    """Return the names of the segments that were played."""
    batches = Ledger(aside, cluster_id).others("")
    return frozenset(segment.name for batch in batches for segment in batch.segments())


def _whole(root: Path, cluster_id: str, kept: Mapping[Path, Path]) -> dict[Path, Path]:
    """Return the segments of windows that are kept whole; a segment is one poll, of one window.

    Where windows were published before the oldest segment's own, older segments may have told of
    that one too: it stays as it is.
    """
    for oldest in sorted({place.parent for place in kept}):
        written = {
            place: spool.sample_time(path)
            for place, path in kept.items()
            if place.parent == oldest and spool.check_segment(path, cluster_id) is None
        }
        if written:
            break
    else:
        return {}
    first = window_floor(min(written.values()))
    around = (layout.window_file(root, cluster_id, at) for at in (first - LENGTH, first))
    if not all(path.exists() for path in around):
        return dict(kept)
    return {p: kept[p] for p in kept if p not in written or written[p] >= first + LENGTH}


def _move_in(aside: Path, root: Path, cluster_id: str) -> list[datetime]:
    """Move what came of the segments to where readers and the next job look; return its windows.

    What is known of batches comes first: windows that were then not moved in are old, and never
    have a batch twice.
    """
    before = aside / "before"
    before.mkdir()
    for place in (layout.batches, layout.partials):
        old, new = place(root, cluster_id), place(aside, cluster_id)
        old.parent.mkdir(parents=True, exist_ok=True)
        if old.exists():
            old.rename(before / old.parent.parent.name)
        new.rename(old)
        files.sync(old.parent)
    if layout.checkpoint(root, cluster_id).exists():
        checkpoint.take_away(layout.checkpoint(root, cluster_id))
    windows = sorted(layout.windows(aside, cluster_id).glob("date=*/?5m-*.parquet"))
    for path in windows:
        _move(path, layout.windows(aside, cluster_id), layout.windows(root, cluster_id))
    rows = [layout.window_start(path) for path in windows if path.name.startswith("w5m")]
    for path in sorted(layout.hours(aside, cluster_id).glob("date=*/h1-*.parquet")):
        # The first may hold less than the windows that are there; the next job rolls it up.
        if rows and layout.hour_start(path) >= rows[0]:
            _move(path, layout.hours(aside, cluster_id), layout.hours(root, cluster_id))
    return rows


def _move(path: Path, aside: Path, to: Path) -> None:
    place = to / path.relative_to(aside)
    place.parent.mkdir(parents=True, exist_ok=True)
    path.replace(place)
