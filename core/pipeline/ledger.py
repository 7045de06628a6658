"""The ledger: what became of every batch, one small file each.

It makes a batch that is run again come out the same: the time it was first begun at, and which
polls earlier batches had, are looked up here and not asked for anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Set
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from core import files, paths
from core.errors import DocumentError, UsageError
from core.load import load_paths as layout
from core.load.samples import latest_sample_time
from core.load.snapshot.format import Counts
from core.units import format_time, parse_time

KEPT = timedelta(hours=48)
COUNTED = timedelta(hours=24)
"""The longest horizon of a snapshot: its counts go back as far."""

Poll = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: begun, and once its partials are written, what was in it."""

    key: str
    """Query and batch number; the query's id is part of it, as numbers start again with it."""
    began_at: datetime
    complete: bool = False
    read: int = 0
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    newest: datetime | None = None
    """The newest accepted sample."""
    windows: tuple[datetime, ...] = ()
    polls: tuple[Poll, ...] = ()
    files: tuple[str, ...] = ()
    """The segments it read, as file URIs."""

    def segments(self) -> list[Path]:
        """Return the segments it read, where they were when it did."""
        return [Path(unquote(urlparse(file).path)) for file in self.files]

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "began_at": self.began_at.isoformat(),
            "newest": self.newest.isoformat() if self.newest else None,
            "windows": [format_time(start) for start in self.windows],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Batch:
        newest = document["newest"]
        return cls(
            **{
                **document,
                "began_at": datetime.fromisoformat(document["began_at"]),
                "newest": datetime.fromisoformat(newest) if newest else None,
                "windows": tuple(parse_time(start) for start in document["windows"]),
                "polls": tuple((collector, poll) for collector, poll in document["polls"]),
                "files": tuple(document["files"]),
            }
        )


class Ledger:
    """All batches of one cluster that are remembered; one process writes it."""

    def __init__(self, root: Path, cluster_id: str) -> None:
        self._folder = layout.batches(root, cluster_id)
        self._batches: dict[str, Batch] = {}
        for path in sorted(self._folder.glob("*.json")):
            batch = _read(path)
            self._batches[batch.key] = batch

    def begin(self, key: str, now: datetime) -> Batch:
        """Return the batch as it is known, complete perhaps; note it when it is new."""
        known = self._batches.get(key)
        if known is not None:
            return known
        batch = Batch(key, now)
        self._write(batch)
        return batch

    def complete(self, batch: Batch) -> None:
        """Note what became of a batch."""
        self._write(batch)

    def complete_batch(self, key: str) -> Batch | None:
        """Return a batch whose partials are written; None when it is not known to be that far."""
        batch = self._batches.get(key)
        return batch if batch is not None and batch.complete else None

    def others(self, key: str) -> Iterator[Batch]:
        """Return the complete batches that are not `key`: those before it."""
        return (b for b in self._batches.values() if b.key != key and b.complete)

    def newest_before(self, key: str, now: datetime) -> datetime | None:
        """Return the newest sample accepted before this batch, of those that can be by `now`."""
        known = (b.newest for b in self.others(key) if b.newest)
        return max((at for at in known if at <= latest_sample_time(now)), default=None)

    def newest(self, now: datetime) -> datetime | None:
        """Return the newest sample accepted at all, of those that can be by `now`."""
        return self.newest_before("", now)

    def seen(self, key: str, polls: Collection[Poll]) -> frozenset[Poll]:
        """Return which of these polls an earlier batch had."""
        wanted = frozenset(polls)
        return frozenset(poll for b in self.others(key) for poll in b.polls if poll in wanted)

    def counts(self, now: datetime) -> Counts:
        """Return the sums over the batches of the last 24 hours of samples."""
        newest = self.newest(now)
        counted = [
            b
            for b in self.others("")
            if newest is None or (b.newest or b.began_at) > newest - COUNTED
        ]
        quarantined: dict[str, int] = {}
        for batch in counted:
            for reason, rows in batch.quarantined.items():
                quarantined[reason] = quarantined.get(reason, 0) + rows
        return Counts(
            read=sum(b.read for b in counted),
            accepted=sum(b.accepted for b in counted),
            duplicate=sum(b.duplicate for b in counted),
            late=sum(b.late for b in counted),
            quarantined=dict(sorted(quarantined.items())),
        )

    def keys(self) -> Set[str]:
        """Return the keys of all batches that are remembered."""
        return self._batches.keys()

    def settled(self, key: str) -> list[Batch]:
        """Return the complete batches before `key` that Spark has committed for certain.

        The one right before `key` is left out: its commit may be what a crash took away.
        """
        return sorted(self.others(key), key=lambda b: b.began_at)[:-1]

    def forget(self, now: datetime) -> None:
        """Delete what is older than two days."""
        for batch in list(self._batches.values()):
            if now - batch.began_at > KEPT:
                del self._batches[batch.key]
                self._path(batch.key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _write(self, batch: Batch) -> None:
        self._batches[batch.key] = batch
        files.write_text(self._path(batch.key), json.dumps(batch.to_json()) + "\n")


def waiting_segments(root: Path, cluster_id: str) -> int:
    """Return how many segments no complete batch has taken, whether the gate has seen them or not.

    Only the batches noted since the oldest of them came can have taken any.
    """
    spooled = {
        path.name: at
        for path in layout.spool(root, cluster_id).glob("date=*/hour=*/*.parquet")
        if (at := _written_at(path)) is not None
    }
    since = min(spooled.values(), default=0.0)
    taken: set[str] = set()
    for path in layout.batches(root, cluster_id).glob("*.json") if spooled else ():
        if (_written_at(path) or 0.0) >= since:
            batch = _read(path)
            if batch.complete:
                taken.update(segment.name for segment in batch.segments())
    prefix = paths.cluster_folder(cluster_id)
    landed = layout.incoming(root).glob(f"{prefix}-*.parquet")
    return len(spooled.keys() - taken) + sum(1 for _ in landed)


def _read(path: Path) -> Batch:
    """Return the batch that a file notes; raises DocumentError when it is damaged."""
    try:
        return Batch.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, LookupError, AttributeError, UsageError) as error:
        raise DocumentError(
            f"{path.name}, what became of a batch, is damaged.",
            detail=str(path),
            next="Run `trimtab pipeline rebuild`: it makes batches anew from the segments kept.",
        ) from error


def _written_at(path: Path) -> float | None:
    """Return when a file was written; None when it has just been taken away."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
