"""The ledger: what became of every batch, and what the next one goes on from.

A batch that is run again comes out the same: the time it was first begun at, and all that it went
on from, are looked up here. A batch is noted as complete last of all; until then nothing that it
wrote is in use.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from core import files, paths
from core.errors import DocumentError, UsageError
from core.load import load_paths as layout
from core.load.samples import from_micros
from core.load.snapshot.format import Counts
from core.text.json_text import parse_json

log = logging.getLogger(__name__)

KEPT = 12
"""Batches that are remembered: those that Spark may run again, and a few before."""
COUNTED = timedelta(hours=24)
"""The longest horizon of a snapshot: its counts go back as far."""
SERIES = 500
"""Of polls: as many collectors, or parts of their polls, are remembered of a cluster."""
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
    fed_at: int = 0
    """When the last batch began that had samples of it, by the clock of the job."""
    whole_at: int = 0
    """Its newest poll of which all parts have come."""
    open_at: int = 0
    """Windows that start before are closed."""
    open: tuple[int, ...] = ()
    """When the windows start that have samples and are open."""
    rolled_at: int = 0
    """Hours before are in the table of hours."""
    day_at: int = 0
    """Up to which hour its day has been rolled up."""
    polls: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Which polls have been counted, as ranges of ids, by collector and part (`poll_series`)."""
    counts: Mapping[str, Counts] = field(default_factory=dict)
    """What became of its samples, by hour, of a day."""

    def has(self, collector: str, poll: int, part: int = 0) -> bool:
        """Return whether a part of a poll has been counted."""
        ranges = self.polls.get(poll_series(collector, part), ())
        return any(first <= poll <= last for first, last in ranges)

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
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Of a topic which record comes next, by partition."""
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
    rows: int = 0
    """Rows that it read, and in how many seconds from samples to snapshots."""
    seconds: float = 0.0

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


def poll_series(collector: str, part: int) -> str:
    """Return the name of a collector's polls' parts of this number: their ids count up."""
    return collector if part == 0 else f"{collector}/{part}"


def with_polls(known: ClusterState, polls: Mapping[str, Iterable[int]]) -> ClusterState:
    """Return what is known of a cluster with more polls counted, by `poll_series`.

    A collector has an id of its host: those that have not been heard of for longest go.
    """
    out = {series: of for series, of in known.polls.items() if series not in polls}
    for collector, ids in polls.items():
        ranges = sorted([*known.polls.get(collector, ()), *((poll, poll) for poll in ids)])
        joined: list[tuple[int, int]] = []
        for first, last in ranges:
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        out[collector] = tuple(joined[-RANGES:])
    return replace(known, polls=dict(list(out.items())[-max(SERIES, len(polls)) :]))


def with_counts(known: ClusterState, counts: Counts, batch: Batch) -> ClusterState:
    """Return what is known of a cluster with a batch's rows counted, without those of a day ago."""
    now = batch.began_at if known.newest_at is None else from_micros(known.newest_at)
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


class Jobs:
    """What the jobs below a load root have noted, for whoever looks at them from outside."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._batches: dict[str, list[Batch]] = {}

    def last_batch(self, cluster_id: str) -> tuple[str, Batch] | None:
        """Return the last complete batch with a cluster in it, and the name of the job it is of.

        Raises DocumentError where what is noted of it is damaged.
        """
        batches = [
            (job, batch)
            for job in self._of(cluster_id)
            for batch in self._complete(job)
            if batch.carried is not None and cluster_id in batch.carried.clusters
        ]
        return max(batches, key=lambda pair: pair[1].began_at, default=None)

    def waiting_segments(self, cluster_id: str) -> int:
        """Return how many segments no complete batch has taken, seen by the gate or not.

        Those that were taken are archived two batches later, so that few batches need be looked at.
        """
        folder = layout.spool(self._root, cluster_id)
        spooled = {path.name for path in folder.glob("date=*/hour=*/*.parquet")}
        taken: list[str] = []
        if spooled:
            taken += taken_by_earlier_version(self._root, cluster_id)
            for job in self._of(cluster_id):
                taken += (unit for batch in self._complete(job) for unit in batch.units)
        prefix = paths.cluster_folder(cluster_id)
        here = f"/{prefix}/"
        names = {unit.rpartition("/")[2] for unit in taken if here in unit}
        landed = layout.incoming(self._root).glob(f"{prefix}-*.parquet")
        return len(spooled - names) + sum(1 for _ in landed)

    def _of(self, cluster_id: str) -> list[str]:
        """Return the jobs that may take a cluster's samples."""
        folders = layout.batches(self._root, cluster_id).parent.glob("cluster=*")
        names = (folder.name.removeprefix("cluster=") for folder in folders)
        return [name for name in names if name == cluster_id or is_of_many(name)]

    def _complete(self, job: str) -> list[Batch]:
        if job not in self._batches:
            self._batches[job] = Ledger(layout.batches(self._root, job)).complete_batches()
        return self._batches[job]


def is_of_many(job: str) -> bool:
    """Return whether a job of this name takes the samples of many clusters."""
    return job == layout.EVERY or job.startswith(layout.TOPIC_PREFIX)


def taken_by_earlier_version(root: Path, cluster_id: str) -> list[str]:
    """Return the segments, where they were, that batches of versions up to 0.2 took whole."""
    folder = root / "batches" / "v1" / paths.cluster_folder(cluster_id)
    out: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = parse_json(path.read_text(encoding="utf-8"))
            if document["complete"]:
                out += [unquote(str(uri)) for uri in document["files"]]
        except (ValueError, TypeError, LookupError) as error:
            log.warning("%s is damaged, what it took is taken again: %s", path, error)
    return out


def _read(path: Path) -> Batch:
    """Return the batch that a file notes; raises DocumentError when it is damaged."""
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
        carried = document["carried"]
        if not all(isinstance(unit, str) for unit in document["units"]):
            raise TypeError("a unit has no name")
        return Batch(
            key=document["key"],
            began_at=datetime.fromisoformat(document["began_at"]),
            units=tuple(document["units"]),
            carried=None if carried is None else _carried(carried),
            rows=int(document["rows"]),
            seconds=float(document["seconds"]),
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
