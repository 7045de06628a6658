"""One batch's way from samples to snapshots.

Samples are judged and joined with what is carried; windows that they come late for are counted
anew, those that close are written and rolled up; then the snapshots are published. Everything is
written under the batch's own key; nothing of it is in use until the ledger says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.errors import TrimtabError
from core.load import spool
from core.load.samples import latest_sample_time
from core.load.snapshot.writer import claim_epoch
from core.load.store import Root
from core.pipeline import samples, tables, windows
from core.pipeline.clusters import (
    Cluster,
    PollPart,
    clusters_of,
    fresh_parts,
    is_kept,
    part_of,
    remembered,
    without_retired,
)
from core.pipeline.ledger import (
    Batch,
    Carried,
    Part,
    summed_up,
    with_counts,
    with_polls,
)
from core.pipeline.moments import DAY, HOUR, WINDOW, floor, micros, moment
from core.pipeline.publish import (
    Answer,
    Heading,
    Published,
    publish_snapshots,
    without_repeated,
    write_quarantine,
    write_windows,
)
from core.pipeline.rates import KEY
from core.pipeline.source import Arrived
from core.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

UNCHANGING_AFTER = micros(samples.TOO_LATE_AFTER) + WINDOW
"""After how long no sample comes for a window that starts then."""
NOBODY = "unknown"
"""Of whom records are that do not say."""
MAX_BYTES = 1000
"""What is kept of a record that cannot be read."""
MAX_REASONS = 1000
"""Kinds of records that cannot be read which are told apart, by cluster and reason."""
CLAIMS = 16


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

    def _claimed(self, cluster_id: str) -> int | None:
        """Return this job's epoch as the writer of a cluster's snapshots, claimed once.

        None where it cannot be claimed and other clusters wait.
        """
        try:
            if cluster_id not in self._epochs:
                self._epochs[cluster_id] = claim_epoch(self._snapshots, cluster_id)
        except (TrimtabError, OSError) as error:
            if self._alone:
                raise
            log.warning("%s is not published: %s", cluster_id, error)
        return self._epochs.get(cluster_id)

    def take(
        self, arrived: Arrived, batch: Batch, carried: Carried, tell: Callable[[Published], None]
    ) -> Carried:
        """Take a batch from samples to snapshots; return what the next one goes on from."""
        latest_at = micros(latest_sample_time(batch.began_at))
        fine = samples.judged(arrived.rows, self._oldest(carried, batch.began_at), latest_at)
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
            clusters={**remembered(carried.clusters, batch.began_at), **known},
        )
        headings: dict[str, Heading] = {}
        answers: dict[str, Answer] = {}
        if fresh:
            every = {part_of(row) for row in found if row.reason is None}
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
        rolled = self._tables.read(tables.HORIZONS, [carried.horizons], windows.HORIZONS)
        return windows.with_horizons(state, rolled)

    # -- what comes in -----------------------------------------------------------------------------

    def _oldest(self, carried: Carried, now: datetime) -> DataFrame:
        """Return before when samples of each cluster are too late."""
        known = {c: of for c, of in carried.clusters.items() if of.newest_at is not None}
        latest_at = micros(latest_sample_time(now))
        oldest = [
            min(of.newest_at or 0, latest_at) - micros(samples.TOO_LATE_AFTER)
            if is_kept(of, now)
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
            min(
                (state.newest_at or 0) - WINDOW + 1,
                *state.open,
                *(fed[c].closing if c in fed else ()),
            )
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
        hour = windows.hour_figures(
            self._windows(after.windows, closing, [at - HOUR for at in until], until)
        )
        has_day = [int(after.clusters[c].day_at > before[c].day_at) for c in closing]
        of_closing = F.broadcast(self._of_clusters(closing, has_day=has_day))
        partitions = self._state(after).select(*KEY).join(of_closing, "cluster")
        rolled = windows.horizons(partitions, hour, day)
        self._tables.write(tables.HORIZONS, key, rolled)
        return without_retired(replace(after, horizons=key), began_at)

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
        hours = windows.hours_of(self._windows(after.windows, due, rolled, until))
        before = [part for part in after.hours if part.last >= min(until) - DAY]
        older = self._tables.read(tables.HOURS, [p.name for p in before], windows.HOUR).join(
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
        return after, windows.day_figures(older.unionByName(hours))

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
        return windows.one_a_window(here) if any(part.late for part in some) else here

    def _pairs(self, pairs: Sequence[tuple[str, int]]) -> DataFrame:
        clusters, starts = [c for c, _ in pairs], [start for _, start in pairs]
        return self._tables.small({"cluster": ("string", clusters), "start": ("long", starts)})
