"""The snapshots that are kept: when each was published and what the brokers carried then.

Only manifests are read. Of each hour the first snapshot is kept longest: it stands for the hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.errors import DocumentError
from core.load.load import Source
from core.load.snapshot.manifest import Manifest, read_manifest, resource_skew, snapshot_ids
from core.load.store import Root

HOUR_SECONDS = 3600
MAX_AGE = timedelta(hours=1)
"""A snapshot that is older tells nothing of a moment."""


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """One kept snapshot and the brokers' totals in it; None is unknown.

    `out_bytes_per_s` is what consumers and followers fetch, as on the map.
    """

    snapshot_id: str
    source: Source
    published_at: datetime
    window_end: datetime
    partitions: int
    bytes: int
    """How large its files are."""
    in_bytes_per_s: float | None
    out_bytes_per_s: float | None
    size_bytes: int | None
    in_skew: float | None
    """What comes to the busiest broker's leaders over the mean, as on the map."""

    @classmethod
    def of(cls, manifest: Manifest) -> KeptSnapshot:
        brokers = manifest.brokers
        inward = [known for b in brokers if (known := b.leader_in_bytes_per_s) is not None]
        outward = [known for b in brokers if (known := b.out_bytes_per_s) is not None]
        sizes = [known for b in brokers if (known := b.size_bytes) is not None]
        return cls(
            snapshot_id=manifest.snapshot_id,
            source=manifest.source,
            published_at=manifest.published_at,
            window_end=manifest.window_end,
            partitions=sum(file.rows for file in manifest.files),
            bytes=sum(file.bytes for file in manifest.files),
            in_bytes_per_s=sum(inward) if inward else None,
            out_bytes_per_s=sum(outward) if outward else None,
            size_bytes=sum(sizes) if sizes else None,
            in_skew=resource_skew([b.leader_in_bytes_per_s for b in brokers]).max_over_mean,
        )

    @property
    def hour(self) -> int:
        """Return the hour it was published in, counted from 1970 in UTC."""
        return _epoch_hour(self.published_at)


@dataclass(frozen=True, slots=True)
class Kept:
    """The snapshots that are kept, oldest first."""

    snapshots: tuple[KeptSnapshot, ...] = ()
    left_out: tuple[str, ...] = ()
    """Which are damaged, and how, a sentence each."""

    @property
    def hours(self) -> tuple[KeptSnapshot, ...]:
        """Return the first snapshot of each hour, oldest first."""
        first: dict[int, KeptSnapshot] = {}
        for snapshot in self.snapshots:
            first.setdefault(snapshot.hour, snapshot)
        return tuple(first.values())

    def at(self, moment: datetime) -> KeptSnapshot | None:
        """Return what was published last at a moment; None where that was an hour before it."""
        before = [snapshot for snapshot in self.snapshots if snapshot.published_at <= moment]
        return before[-1] if before and moment - before[-1].published_at < MAX_AGE else None


def read_kept(root: Root, cluster_id: str, known: Kept | None = None) -> Kept:
    """Return what is kept of a cluster; what is `known` is not read again."""
    by_id = {entry.snapshot_id: entry for entry in known.snapshots} if known else {}
    kept, left_out = [], []
    for name in snapshot_ids(root, cluster_id):
        snapshot = by_id.get(name)
        if snapshot is None:
            try:
                manifest = read_manifest(root, cluster_id, name)
            except DocumentError as error:
                left_out.append(f"{name} is left out: {error.title}")
                continue
            except OSError as error:
                left_out.append(f"{name} is left out: {error.strerror or error}.")
                continue
            if manifest is None:  # deleted meanwhile
                continue
            snapshot = KeptSnapshot.of(manifest)
        kept.append(snapshot)
    kept.sort(key=lambda entry: entry.published_at)
    return Kept(tuple(kept), tuple(left_out))


def step_hours(
    hours: Sequence[KeptSnapshot], since: datetime | None, steps: int
) -> KeptSnapshot | None:
    """Return the kept hour that is `steps` hours after `since`, before it if negative.

    `since` None is now, and None is returned for it. Where that hour is not kept, it is the next
    one in the same direction; before the oldest there is the oldest.
    """
    if steps >= 0:
        if since is None:
            return None
        until = _epoch_hour(since) + steps
        return next((snapshot for snapshot in hours if snapshot.hour >= until), None)
    if not hours:
        return None
    # Now lies within the hour after the newest mark: one step back is to that mark.
    until = _epoch_hour(since) + steps if since else hours[-1].hour + (steps if steps < -1 else 0)
    return next((snapshot for snapshot in reversed(hours) if snapshot.hour <= until), hours[0])


def _epoch_hour(moment: datetime) -> int:
    return int(moment.timestamp()) // HOUR_SECONDS
