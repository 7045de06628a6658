"""The ledger: what became of every batch, and what the next one goes on from.

A batch that is run again comes out the same: the time it was first begun at, and all that it went
on from, are looked up here. A batch is noted as complete last of all; until then nothing that it
wrote is in use.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core import files, paths
from core.errors import DocumentError, UsageError
from core.load import load_paths as layout
from core.load.snapshot.format import Counts
from core.pipeline.moments import moment

KEPT = 12
"""Batches that are remembered: those that Spark may run again, and a few before."""
COUNTED = timedelta(hours=24)
"""The longest horizon of a snapshot: its counts go back as far."""
RANGES = 1000
"""Of a collector's polls; each of its starts begins one, and each gap."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a table of windows or hours, and which starts are in it (microseconds)."""

    name: str
    first: int
    last: int
    late: bool = False
    """Whether other parts have samples of the same windows."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the next batch has to know of a cluster; times are microseconds since the epoch."""

    newest_at: int | None = None
    """Its newest sample."""
    open_at: int = 0
    """Windows that start before are closed."""
    open: tuple[int, ...] = ()
    """When the windows start that have samples and are open."""
    rolled_at: int = 0
    """Hours before are in the table of hours."""
    day_at: int = 0
    """Up to which hour its day has been rolled up."""
    polls: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Which polls of each collector have been counted, as ranges of ids."""
    counts: Mapping[str, Counts] = field(default_factory=dict)
    """What became of its samples, by hour, of a day."""

    def has(self, collector: str, poll: int) -> bool:
        """Return whether a poll has been counted."""
        return any(first <= poll <= last for first, last in self.polls.get(collector, ()))

    def total(self) -> Counts:
        """Return the counts of the last 24 hours of samples."""
        return summed_up(self.counts.values())


@dataclass(frozen=True, slots=True)
class Carried:
    """What a batch leaves to the next."""

    number: int = 0
    """How many batches there have been, whatever Spark calls them."""
    state: str | None = None
    """The part of the table of states."""
    horizons: str | None = None
    """Figures of an hour and a day that are not in the state yet."""
    windows: tuple[Part, ...] = ()
    hours: tuple[Part, ...] = ()
    clusters: Mapping[str, ClusterState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: begun, and once it is complete, what it read and left."""

    key: str
    """Query and batch number; the query's id is part of it, as numbers start again with it."""
    began_at: datetime
    units: tuple[str, ...] = ()
    """The segments it read, where they were when it did; of a topic nothing."""
    carried: Carried | None = None

    @property
    def complete(self) -> bool:
        return self.carried is not None


class Ledger:
    """The batches of one job that are remembered; one process writes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batches = {batch.key: batch for batch in map(_read, sorted(folder.glob("*.json")))}

    def begin(self, key: str, now: datetime) -> Batch:
        """Return the batch as it is known, complete perhaps; note it when it is new."""
        known = self._batches.get(key)
        if known is not None:
            return known
        batch = Batch(key, now)
        self._write(batch)
        return batch

    def complete(self, batch: Batch) -> None:
        """Note what became of a batch; from now on the next one goes on from it."""
        self._write(batch)

    @property
    def carried(self) -> Carried:
        """Return what the newest complete batch has left."""
        left = (batch.carried for batch in self._batches.values() if batch.carried is not None)
        return max(left, key=lambda carried: carried.number, default=Carried())

    def in_use(self) -> Iterator[Carried]:
        """Return what complete batches have left of which one may still be gone on from."""
        newest = self.carried.number
        for batch in self._batches.values():
            if batch.carried is not None and batch.carried.number >= newest - 1:
                yield batch.carried

    def settled(self, key: str) -> list[Batch]:
        """Return the complete batches before `key` that Spark has committed for certain.

        The one right before `key` is left out: its commit may be what a crash took away.
        """
        others = (batch for batch in self._batches.values() if batch.key != key and batch.complete)
        return sorted(others, key=_number)[:-1]

    def complete_batches(self) -> list[Batch]:
        """Return all that are remembered, oldest first."""
        return sorted((b for b in self._batches.values() if b.complete), key=_number)

    def forget(self) -> None:
        """Delete all but the last few batches, and those that were begun before them."""
        kept = self.complete_batches()[-KEPT:]
        if len(kept) < KEPT:
            return
        for batch in list(self._batches.values()):
            if batch.began_at < kept[0].began_at and batch not in kept:
                del self._batches[batch.key]
                self._path(batch.key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _write(self, batch: Batch) -> None:
        self._batches[batch.key] = batch
        document = {**asdict(batch), "began_at": batch.began_at.isoformat()}
        files.write_text(self._path(batch.key), json.dumps(document) + "\n")


def _number(batch: Batch) -> int:
    return batch.carried.number if batch.carried else 0


def with_polls(known: ClusterState, polls: Mapping[str, Iterable[int]]) -> ClusterState:
    """Return what is known of a cluster with more polls of each collector counted."""
    out = dict(known.polls)
    for collector, ids in polls.items():
        ranges = sorted([*out.get(collector, ()), *((poll, poll) for poll in ids)])
        joined: list[tuple[int, int]] = []
        for first, last in ranges:
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        out[collector] = tuple(joined[-RANGES:])
    return replace(known, polls=out)


def with_counts(known: ClusterState, counts: Counts, batch: Batch) -> ClusterState:
    """Return what is known of a cluster with a batch's rows counted, without those of a day ago."""
    now = batch.began_at if known.newest_at is None else moment(known.newest_at)
    hour, oldest = (f"{at:%Y-%m-%dT%H}" for at in (now, now - COUNTED))
    of_hours = {name: kept for name, kept in known.counts.items() if name > oldest}
    of_hours[hour] = summed_up([of_hours.get(hour, Counts()), counts])
    return replace(known, counts=of_hours)


def summed_up(parts: Iterable[Counts]) -> Counts:
    """Return counts as one."""
    whole = list(parts)
    reasons = sorted({reason for part in whole for reason in part.quarantined})
    return Counts(
        read=sum(part.read for part in whole),
        accepted=sum(part.accepted for part in whole),
        duplicate=sum(part.duplicate for part in whole),
        late=sum(part.late for part in whole),
        quarantined={r: sum(part.quarantined.get(r, 0) for part in whole) for r in reasons},
    )


def waiting_segments(root: Path, cluster_id: str) -> int:
    """Return how many segments no complete batch has taken, whether the gate has seen them or not.

    Those that were taken are archived two batches later, so that few batches need be looked at.
    """
    spooled = {path.name for path in layout.spool(root, cluster_id).glob("date=*/hour=*/*.parquet")}
    taken: set[str] = set()
    if spooled:
        for batch in map(_read, layout.batches(root, cluster_id).glob("*.json")):
            if batch.complete:
                taken.update(unit.rpartition("/")[2] for unit in batch.units)
    prefix = paths.cluster_folder(cluster_id)
    landed = layout.incoming(root).glob(f"{prefix}-*.parquet")
    return len(spooled - taken) + sum(1 for _ in landed)


def _read(path: Path) -> Batch:
    """Return the batch that a file notes; raises DocumentError when it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        carried = document["carried"]
        if not all(isinstance(unit, str) for unit in document["units"]):
            raise TypeError("a unit has no name")
        return Batch(
            key=document["key"],
            began_at=datetime.fromisoformat(document["began_at"]),
            units=tuple(document["units"]),
            carried=None if carried is None else _carried(carried),
        )
    except (ValueError, TypeError, LookupError, AttributeError, UsageError) as error:
        raise DocumentError(
            f"{path.name}, what became of a batch, is damaged.",
            detail=str(path),
            next="Run `trimtab pipeline rebuild`: it makes batches anew from the segments kept.",
        ) from error


def _carried(document: dict[str, Any]) -> Carried:
    clusters = {
        cluster_id: ClusterState(
            **{
                **state,
                "open": tuple(state["open"]),
                "polls": {
                    collector: tuple((first, last) for first, last in ranges)
                    for collector, ranges in state["polls"].items()
                },
                "counts": {hour: Counts(**counts) for hour, counts in state["counts"].items()},
            }
        )
        for cluster_id, state in document["clusters"].items()
    }
    parts = {name: tuple(Part(**part) for part in document[name]) for name in ("windows", "hours")}
    return Carried(**{**document, **parts, "clusters": clusters})
