"""One batch's way from samples to snapshots.

Samples are judged and joined with what is carried; windows that they come late for are counted
anew, those that close are written and rolled up; then the snapshots are published. Everything is
written under the batch's own key; nothing of it is in use until the ledger says so.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.errors import TrimtabError
from core.load import spool
from core.load.samples import latest_sample_time
from core.load.snapshot.format import Counts
from core.load.snapshot.writer import claim_epoch
from core.load.store import Root
from core.pipeline import horizons, samples, tables, windows
from core.pipeline.ledger import (
    Batch,
    Carried,
    ClusterState,
    Part,
    poll_series,
    summed_up,
    with_counts,
    with_polls,
)
from core.pipeline.moments import DAY, HOUR, WINDOW, floor, micros, moment
from core.pipeline.publish import (
    Answer,
    Heading,
    publish_snapshots,
    without_repeated,
    write_quarantine,
    write_windows,
)
from core.pipeline.quarantine import TOO_LATE_AFTER, judged
from core.pipeline.rates import KEY
from core.pipeline.source import Arrived
from core.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

log = logging.getLogger(__name__)

PollPart = tuple[str, str, int, int, str]
"""Cluster, collector, id of the poll, number of the part, and the unit that has it."""
UNCHANGING_AFTER = micros(TOO_LATE_AFTER) + WINDOW
"""After how long no sample comes for a window that starts then."""
NOBODY = "unknown"
"""Of whom records are that do not say."""
MAX_BYTES = 1000
"""What is kept of a record that cannot be read."""
MAX_REASONS = 1000
"""Kinds of records that cannot be read which are told apart, by cluster and reason."""
RETIRED_AFTER = micros(timedelta(hours=25))
"""After how long without samples a cluster's windows are no longer kept for its return."""
FORGOTTEN_AFTER = 3 * DAY
"""After how long without samples nothing is known of a cluster; samples are kept for less."""
CLAIMS = 16


@dataclass(frozen=True, slots=True)
class Published:
    """One cluster's part of a batch: what became of its rows, and its snapshot if there is one."""

    key: str
    """The batch's."""
    cluster_id: str
    counts: Counts
    newest: datetime | None
    """The newest sample of the cluster."""
    snapshot: Heading | None

    @property
    def source_lag_seconds(self) -> float | None:
        """Return how old the newest sample was as it was published."""
        if self.snapshot is None:
            return None
        return (self.snapshot.published_at - self.snapshot.newest).total_seconds()


@dataclass(slots=True)
class Cluster:
    """One cluster in a batch: what came of it, and what is known of it then."""

    known: ClusterState
    counts: Counts = field(default_factory=Counts)
    polls: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The polls that are counted, by `ledger.poll_series`."""
    starts: set[int] = field(default_factory=set)
    """When the windows of its samples start."""
    newest_at: int = 0
    whole_at: int = 0
    late: tuple[int, ...] = ()
    """Closed windows that samples came for."""
    closing: tuple[int, ...] = ()
    """Windows that close with this batch."""

    @property
    def fed(self) -> bool:
        """Return whether any of its samples count."""
        return bool(self.starts)

    @property
    def newest(self) -> datetime | None:
        """Return the newest sample of the cluster."""
        return None if self.known.newest_at is None else moment(self.known.newest_at)

    def open_and_close(self, latest_at: int) -> None:
        """Find which windows the batch came late for, which it opens, and which close with it."""
        known = self.known
        newest_at = max(self.newest_at, known.newest_at or 0)
        if newest_at > latest_at:
            # A clock was ahead and is put right: what it made is not the newest any more.
            newest_at = self.newest_at
            known = replace(
                known,
                open_at=min(known.open_at, floor(newest_at, WINDOW)),
                open=tuple(start for start in known.open if start <= newest_at),
                rolled_at=min(known.rolled_at, floor(newest_at, HOUR)),
                day_at=min(known.day_at, floor(newest_at, HOUR)),
            )
        self.late = tuple(sorted(start for start in self.starts if start < known.open_at))
        opened = {*known.open, *self.starts.difference(self.late)}
        stays_open = floor(newest_at, WINDOW)
        self.closing = tuple(sorted(start for start in opened if start < stays_open))
        hour = floor(min(opened, default=known.open_at), HOUR)
        self.known = replace(
            known,
            newest_at=newest_at,
            # Before any has come whole, who is known to hold something does.
            whole_at=min(newest_at, max(known.whole_at, self.whole_at) or newest_at),
            open_at=max(known.open_at, stays_open),
            open=tuple(sorted(opened.difference(self.closing))),
            rolled_at=known.rolled_at or hour,
            day_at=known.day_at or hour,
        )


class Intake:
    """Takes in the batches of one job.

    Where it is of one cluster `alone`, what goes wrong with that ends the batch, and it is run
    again; in a job of many it is logged, and the others go on.
    """

    def __init__(
        self,
        root: Path,
        parts: Tables,
        snapshots: Root,
        now: Callable[[], datetime],
        *,
        alone: bool,
    ) -> None:
        self._root = root
        self._alone = alone
        self._tables = parts
        self._snapshots = snapshots
        self._now = now
        self._epochs: dict[str, int] = {}

    def claim(self, cluster_id: str) -> int:
        """Return this job's epoch as the writer of a cluster's snapshots, claimed once."""
        if cluster_id not in self._epochs:
            self._epochs[cluster_id] = claim_epoch(self._snapshots, cluster_id)
        return self._epochs[cluster_id]

    def _claimed(self, cluster_id: str) -> int | None:
        """Return the epoch; None where it cannot be claimed and others wait."""
        try:
            return self.claim(cluster_id)
        except (TrimtabError, OSError) as error:
            if self._alone:
                raise
            log.warning("%s is not published: %s", cluster_id, error)
            return None

    def take(
        self, arrived: Arrived, batch: Batch, carried: Carried, tell: Callable[[Published], None]
    ) -> Carried:
        """Take a batch from samples to snapshots; return what the next one goes on from."""
        latest_at = micros(latest_sample_time(batch.began_at))
        fine = judged(arrived.rows, self._oldest(carried, batch.began_at), latest_at)
        found = samples.polls(fine).collect()
        fresh = fresh_parts(found, carried)
        clusters = clusters_of(found, set(fresh), carried, batch.began_at)
        refused = any(of.counts.quarantined for of in clusters.values())
        bad = self._count_records(arrived.bad, clusters)
        known = {c: of.known for c, of in clusters.items()}
        after = replace(
            carried,
            number=carried.number + 1,
            offsets={**carried.offsets, **arrived.offsets},
            clusters={**_remembered(carried.clusters, batch.began_at), **known},
        )
        headings: dict[str, Heading] = {}
        answers: dict[str, Answer] = {}
        if fresh:
            every = {_part(row) for row in found if row.reason is None}
            fed = {c: of for c, of in clusters.items() if of.fed}
            of_batch = samples.by_partition(
                samples.counted(fine, None if len(fresh) == len(every) else self._parts(fresh)),
                self._of_clusters(fed, whole_at=[of.known.whole_at for of in fed.values()]),
            )
            after = self._carry(of_batch, batch.key, fed, after)
            if any(of.late for of in fed.values()):
                after = self._count_late(of_batch, batch.key, fed, after)
            if any(of.closing for of in fed.values()):
                after = self._close(batch.key, batch.began_at, fed, after)
            headings = self._headings(fed, after.number)
            answers = self._publish(after, fed, headings)
        if refused:
            rows = fine.where(F.col("reason").isNotNull())
            self._checked(write_quarantine(rows, self._root, "rows", batch.key))
        if bad is not None:
            self._checked(write_quarantine(bad, self._root, "records", batch.key))
        for cluster_id, of in clusters.items():
            answer = answers.get(cluster_id, Answer())
            of.counts = without_repeated(of.counts, answer.repeated)
            heading = None if answer.error else headings.get(cluster_id)
            tell(Published(batch.key, cluster_id, of.counts, of.newest, heading))
        return replace(
            after,
            clusters={
                **after.clusters,
                **{
                    c: with_counts(with_polls(after.clusters[c], of.polls), of.counts, batch)
                    for c, of in clusters.items()
                },
            },
        )

    def publish(self, carried: Carried) -> None:
        """Publish a snapshot of each cluster of what is carried."""
        if carried.state is not None:
            known = {c: Cluster(of) for c, of in carried.clusters.items() if of.newest_at}
            self._publish(carried, known, self._headings(known, carried.number), anew=True)

    def _publish(
        self,
        carried: Carried,
        clusters: Mapping[str, Cluster],
        headings: Mapping[str, Heading],
        *,
        anew: bool = False,
    ) -> dict[str, Answer]:
        headed = {c: of for c, of in clusters.items() if c in headings}
        rows = windows.snapshot_rows(self._state(carried), self._since(headed))
        if anew:  # what the last batch said twice has been counted
            rows = rows.withColumn("repeated", F.lit(0))
        return self._checked(publish_snapshots(rows, self._root, self._snapshots, headings))

    def _checked(self, answers: dict[str, Answer]) -> dict[str, Answer]:
        """Return what became of clusters; raises what went wrong with one that is alone."""
        for cluster_id, answer in answers.items():
            if answer.error is not None:
                if self._alone:
                    raise answer.error
                log.warning("%s: %s", cluster_id, answer.error)
        return answers

    def _state(self, carried: Carried) -> DataFrame:
        """Return what is carried of each partition, with what has been rolled up since."""
        parts = [] if carried.state is None else [carried.state]
        state = self._tables.read(tables.STATE, parts, windows.STATE)
        if carried.horizons is None:
            return state
        rolled = self._tables.read(tables.HORIZONS, [carried.horizons], horizons.HORIZONS)
        return windows.with_horizons(state, rolled)

    # -- what comes in -----------------------------------------------------------------------------

    def _oldest(self, carried: Carried, now: datetime) -> DataFrame:
        """Return before when samples of each cluster are too late."""
        known = {c: of for c, of in carried.clusters.items() if of.newest_at is not None}
        latest_at = micros(latest_sample_time(now))
        oldest = [
            min(of.newest_at or 0, latest_at) - micros(TOO_LATE_AFTER)
            if _is_kept(of, now)
            else of.open_at
            for of in known.values()
        ]
        return self._of_clusters(known, oldest_at=oldest)

    def _since(self, clusters: Mapping[str, Cluster]) -> DataFrame:
        newest = [of.known.newest_at or 0 for of in clusters.values()]
        return self._of_clusters(
            clusters,
            since_at=[at - WINDOW for at in newest],
            whole_at=[of.known.whole_at for of in clusters.values()],
        )

    def _of_clusters(self, clusters: Iterable[str], **numbers: Sequence[int | None]) -> DataFrame:
        """Return a small table of some numbers for each cluster."""
        kinds = {name: ("long", values) for name, values in numbers.items()}
        return self._tables.small({"cluster": ("string", list(clusters)), **kinds})

    def _parts(self, parts: Sequence[PollPart]) -> DataFrame:
        """Return a small table of parts of polls, each with the unit that it is counted from."""
        kinds = ("string", "string", "long", "long", "string")
        columns = zip(samples.PART, kinds, zip(*parts, strict=True), strict=True)
        return self._tables.small({name: (kind, values) for name, kind, values in columns})

    def _count_records(
        self, bad: DataFrame | None, clusters: Mapping[str, Cluster]
    ) -> DataFrame | None:
        """Count the records that cannot be read by the cluster they are of; None of none."""
        if bad is None:
            return None
        bad = bad.withColumns(
            {
                "cluster": F.coalesce("cluster", F.lit(NOBODY)),
                **{c: F.substring(c, 1, MAX_BYTES) for c in bad.columns if c in ("key", "value")},
            }
        )
        found = bad.groupBy("cluster", "reason").count().limit(MAX_REASONS).collect()
        for row in found:
            reason, count = f"record_{row.reason}", row["count"]
            log.warning("%d records of %s: %s", count, row.cluster, reason)
            if row.cluster in clusters:
                of = clusters[row.cluster]
                of.counts = replace(of.counts, quarantined={**of.counts.quarantined, reason: count})
        return bad if found else None

    def _carry(
        self, of_batch: DataFrame, key: str, fed: Mapping[str, Cluster], after: Carried
    ) -> Carried:
        """Write what is carried on, with the batch in it."""
        known = {c: state for c, state in after.clusters.items() if state.newest_at is not None}
        keep = [
            min((state.newest_at or 0) - WINDOW + 1, *state.open, *_closing(fed, c))
            for c, state in known.items()
        ]
        bounds = self._of_clusters(
            known, keep_at=keep, newest_at=[state.newest_at for state in known.values()]
        )
        self._tables.write(tables.STATE, key, windows.carried(self._state(after), of_batch, bounds))
        return replace(after, state=key, horizons=None)

    def _headings(self, fed: Mapping[str, Cluster], number: int) -> dict[str, Heading]:
        out = {}
        now = self._now()
        with ThreadPoolExecutor(CLAIMS) as claims:  # a store takes a while for each
            epochs = dict(zip(fed, claims.map(self._claimed, fed), strict=True))
        for cluster_id, of in fed.items():
            if (epoch := epochs[cluster_id]) is None:
                continue
            counts = summed_up([of.known.total(), of.counts])
            segments = {
                f"segment_{reason}": count
                for reason, count in spool.quarantined_segments(self._root, cluster_id).items()
            }
            out[cluster_id] = Heading(
                snapshot_id=f"{epoch:06d}-{number:08d}",
                writer_epoch=epoch,
                newest=moment(of.known.newest_at or 0),
                published_at=now,
                counts=replace(counts, quarantined={**counts.quarantined, **segments}),
            )
        return out

    # -- what closes -------------------------------------------------------------------------------

    def _count_late(
        self, of_batch: DataFrame, key: str, clusters: Mapping[str, Cluster], after: Carried
    ) -> Carried:
        """Count samples in windows that had closed, and write those windows anew."""
        pairs = [(c, start) for c, of in clusters.items() for start in of.late]
        changed = self._pairs(pairs)
        first, last = min(s for _, s in pairs), max(s for _, s in pairs)
        name = f"{key}-late"
        late = windows.late_samples(of_batch, changed)
        self._tables.write(tables.WINDOWS, name, windows.as_windows(late))
        part = Part(name, first, last, late=True)
        parts = [p.name for p in (*after.windows, part) if p.last >= first and p.first <= last]
        whole = windows.whole_windows(
            self._tables.read(tables.WINDOWS, parts, windows.WINDOW), changed
        )
        self._checked(write_windows(whole, self._root))
        return replace(after, windows=(*after.windows, part))

    def _close(
        self, key: str, began_at: datetime, clusters: Mapping[str, Cluster], after: Carried
    ) -> Carried:
        """Write the windows that close, and roll up what they complete."""
        pairs = [(c, start) for c, of in clusters.items() for start in of.closing]
        closed = windows.closed_windows(self._state(after), self._pairs(pairs))
        self._tables.write(tables.WINDOWS, key, closed)
        rows = self._tables.read(tables.WINDOWS, [key], windows.WINDOW)
        self._checked(write_windows(rows, self._root))
        part = Part(key, min(s for _, s in pairs), max(s for _, s in pairs))
        after = replace(after, windows=(*after.windows, part))
        closing = {c: of for c, of in clusters.items() if of.closing}
        before = after.clusters
        after, day = self._roll_up_day(key, closing, after)
        until = [after.clusters[c].open_at for c in closing]
        hour = horizons.hour_figures(
            self._windows(after.windows, closing, [at - HOUR for at in until], until)
        )
        has_day = [int(after.clusters[c].day_at > before[c].day_at) for c in closing]
        of_closing = F.broadcast(self._of_clusters(closing, has_day=has_day))
        partitions = self._state(after).select(*KEY).join(of_closing, "cluster")
        rolled = horizons.horizons(partitions, hour, day)
        self._tables.write(tables.HORIZONS, key, rolled)
        return _retired(replace(after, horizons=key), began_at)

    def _roll_up_day(
        self, key: str, closing: Iterable[str], after: Carried
    ) -> tuple[Carried, DataFrame | None]:
        """Return the figures of a day of clusters that an hour is over of, and roll up hours."""
        due = {
            c: state
            for c in closing
            if floor((state := after.clusters[c]).open_at, HOUR) > state.day_at
        }
        if not due:
            return after, None
        until = [floor(state.open_at, HOUR) for state in due.values()]
        # What is this old does not change any more.
        settled = [
            max(
                state.rolled_at,
                floor((state.newest_at or 0) - UNCHANGING_AFTER, HOUR),
            )
            for state in due.values()
        ]
        rolled = [
            max(state.rolled_at, at - DAY) for state, at in zip(due.values(), until, strict=True)
        ]
        hours = horizons.hours_of(self._windows(after.windows, due, rolled, until))
        before = [part for part in after.hours if part.last >= min(until) - DAY]
        older = self._tables.read(tables.HOURS, [p.name for p in before], horizons.HOUR).join(
            F.broadcast(
                self._of_clusters(due, from_at=[at - DAY for at in until], until_at=rolled)
            ),
            "cluster",
        )
        within = (F.col("hour") >= F.col("from_at")) & (F.col("hour") < F.col("until_at"))
        older = older.where(within).drop("from_at", "until_at")
        if settled != rolled:
            new = hours.join(F.broadcast(self._of_clusters(due, until_at=settled)), "cluster")
            new = new.where(F.col("hour") < F.col("until_at")).drop("until_at")
            self._tables.write(tables.HOURS, key, new)
            part = Part(key, min(rolled), max(settled) - HOUR)
            after = replace(after, hours=(*after.hours, part))
        states = {
            c: replace(state, rolled_at=rolled_at, day_at=day_at)
            for (c, state), rolled_at, day_at in zip(due.items(), settled, until, strict=True)
        }
        after = replace(after, clusters={**after.clusters, **states})
        return after, horizons.day_figures(older.unionByName(hours))

    def _windows(
        self,
        parts: Sequence[Part],
        clusters: Iterable[str],
        since: Sequence[int],
        until: Sequence[int],
    ) -> DataFrame:
        """Return the closed windows of some clusters that start in [since, until) of each."""
        some = [part for part in parts if part.last >= min(since) and part.first < max(until)]
        rows = self._tables.read(tables.WINDOWS, [part.name for part in some], windows.WINDOW)
        bounds = self._of_clusters(clusters, from_at=since, until_at=until)
        here = rows.join(F.broadcast(bounds), "cluster").where(
            (F.col("start") >= F.col("from_at")) & (F.col("start") < F.col("until_at"))
        )
        return horizons.one_a_window(here) if any(part.late for part in some) else here

    def _pairs(self, pairs: Sequence[tuple[str, int]]) -> DataFrame:
        clusters, starts = [c for c, _ in pairs], [start for _, start in pairs]
        return self._tables.small({"cluster": ("string", clusters), "start": ("long", starts)})


def fresh_parts(found: Sequence[Row], carried: Carried) -> list[PollPart]:
    """Return the parts of polls that no earlier batch has counted, each with one unit of it."""
    units: dict[tuple[str, str, int, int], str] = {}
    for row in found:
        if row.reason is None:
            cluster_id, collector, poll, part, unit = _part(row)
            key = (cluster_id, collector, poll, part)
            units[key] = min(unit, units.get(key, unit))
    known = carried.clusters
    return [
        (cluster_id, collector, poll, part, unit)
        for (cluster_id, collector, poll, part), unit in sorted(units.items())
        if cluster_id not in known or not known[cluster_id].has(collector, poll, part)
    ]


def clusters_of(
    found: Sequence[Row], fresh: Set[PollPart], carried: Carried, began_at: datetime
) -> dict[str, Cluster]:
    """Return each cluster in a batch: what became of its rows, and which windows are open then."""
    out: dict[str, Cluster] = {}
    for row in found:
        known = carried.clusters.get(row.cluster, ClusterState())
        of = out.setdefault(row.cluster, Cluster(known))
        counts = of.counts = replace(of.counts, read=of.counts.read + row.rows)
        if row.reason is not None:
            bad = counts.quarantined
            of.counts = replace(
                counts, quarantined={**bad, row.reason: bad.get(row.reason, 0) + row.rows}
            )
        elif _part(row) not in fresh:
            of.counts = replace(counts, duplicate=counts.duplicate + row.rows)
        else:
            late = row.rows if row.start < known.open_at else 0
            of.counts = replace(
                counts, accepted=counts.accepted + row.rows, late=counts.late + late
            )
            of.starts.add(row.start)
            of.newest_at = max(of.newest_at, row.newest_at)
            of.whole_at = max(of.whole_at, row.whole_at or 0)
            of.polls[poll_series(row.collector_id, row.part)].add(row.poll_id)
    latest_at = micros(latest_sample_time(began_at))
    for of in out.values():
        if of.fed:
            of.open_and_close(latest_at)
            of.known = replace(of.known, fed_at=micros(began_at))
    return out


def _part(row: Row) -> PollPart:
    return (row.cluster, row.collector_id, row.poll_id, row.part, row.unit)


def _closing(clusters: Mapping[str, Cluster], cluster_id: str) -> tuple[int, ...]:
    return clusters[cluster_id].closing if cluster_id in clusters else ()


def _remembered(clusters: Mapping[str, ClusterState], now: datetime) -> dict[str, ClusterState]:
    """Return what is known of clusters, without those that have sent nothing for days."""
    since = micros(now) - FORGOTTEN_AFTER
    return {c: state for c, state in clusters.items() if state.fed_at > since}


def _is_kept(state: ClusterState, now: datetime) -> bool:
    """Return whether a cluster's closed windows are kept, for what comes late."""
    return state.fed_at > micros(now) - RETIRED_AFTER


def _retired(after: Carried, now: datetime) -> Carried:
    """Return what is carried without windows and hours that nobody asks for any more."""
    living = [state for state in after.clusters.values() if _is_kept(state, now)]
    needed = min((min(state.rolled_at, state.open_at - HOUR) for state in living), default=0)
    oldest = min((state.day_at - DAY for state in living), default=0)
    return replace(
        after,
        windows=tuple(part for part in after.windows if part.last >= needed),
        hours=tuple(part for part in after.hours if part.last >= oldest),
    )
