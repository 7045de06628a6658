"""One batch's way from samples to snapshots.

Samples are judged and joined with what is carried; windows that they come late for are counted
anew, those that close are written and rolled up; then the snapshots are published. Everything is
written under the batch's own key; nothing of it is in use until the ledger says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from core.errors import TrimtabError
from core.load import spool
from core.load.samples import (
    WINDOW_MICROS,
    from_micros,
    latest_sample_time,
    to_micros,
)
from core.load.snapshot.writer import claim_epoch
from core.load.store import Root
from core.pipeline import samples, tables, windows
from core.pipeline.closing import Closing
from core.pipeline.clusters import (
    Cluster,
    PollPart,
    clusters_of,
    fresh_parts,
    is_kept,
    part_of,
    remembered,
)
from core.pipeline.ledger import (
    Batch,
    Carried,
    summed_up,
    with_counts,
    with_polls,
)
from core.pipeline.publish import (
    Answer,
    Heading,
    Published,
    check,
    publish_snapshots,
    without_repeated,
    write_quarantine,
)
from core.pipeline.source import Arrived
from core.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

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
        self._closing = Closing(root, parts, alone=alone)

    def _claim_epoch_once(self, cluster_id: str) -> int | None:
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
        self,
        arrived: Arrived,
        batch: Batch,
        carried: Carried,
        report: Callable[[list[Published]], None],
    ) -> Carried:
        """Take a batch from samples to snapshots; return what the next one goes on from."""
        latest_at = to_micros(latest_sample_time(batch.began_at))
        fine = samples.judged(arrived.rows, self._late_cutoffs(carried, batch.began_at), latest_at)
        poll_rows = samples.polls(fine).collect()
        fresh = fresh_parts(poll_rows, carried)
        clusters = clusters_of(poll_rows, set(fresh), carried, batch.began_at)
        refused = any(of.counts.quarantined for of in clusters.values())
        bad = self._count_bad_records(arrived.bad, clusters)
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
            every = {part_of(row) for row in poll_rows if row.reason is None}
            fed = {c: of for c, of in clusters.items() if of.fed}
            of_batch = samples.by_partition(
                samples.counted(fine, None if len(fresh) == len(every) else self._parts(fresh)),
                self._tables.of_clusters(fed, whole_at=[of.known.whole_at for of in fed.values()]),
            )
            after = self._carry(of_batch, batch.key, fed, after)
            if any(of.late for of in fed.values()):
                after = self._closing.count_late(of_batch, batch.key, fed, after)
            if any(of.closing for of in fed.values()):
                after = self._closing.close(batch.key, batch.began_at, fed, after)
            headings = self._headings(fed, after.number)
            answers = self._publish(after, fed, headings)
        if refused:
            rows = fine.where(F.col("reason").isNotNull())
            check(write_quarantine(rows, self._root, "rows", batch.key), alone=self._alone)
        if bad is not None:
            check(write_quarantine(bad, self._root, "records", batch.key), alone=self._alone)
        published = []
        for cluster_id, of in clusters.items():
            answer = answers.get(cluster_id, Answer())
            of.counts = without_repeated(of.counts, answer.repeated)
            heading = None if answer.error else headings.get(cluster_id)
            published.append(Published(batch.key, cluster_id, of.counts, of.newest, heading))
        report(published)
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
        rows = windows.snapshot_rows(self._tables.state(carried), self._since(headed))
        if anew:  # what the last batch said twice has been counted
            rows = rows.withColumn("repeated", F.lit(0))
        answers = publish_snapshots(rows, self._root, self._snapshots, headings)
        return check(answers, alone=self._alone)

    # -- what comes in -----------------------------------------------------------------------------

    def _late_cutoffs(self, carried: Carried, now: datetime) -> DataFrame:
        """Return before when samples of each cluster are too late."""
        known = {c: of for c, of in carried.clusters.items() if of.newest_at is not None}
        latest_at = to_micros(latest_sample_time(now))
        oldest = [
            min(of.newest_at or 0, latest_at) - to_micros(samples.TOO_LATE_AFTER)
            if is_kept(of, now)
            else of.open_at
            for of in known.values()
        ]
        return self._tables.of_clusters(known, oldest_at=oldest)

    def _since(self, clusters: Mapping[str, Cluster]) -> DataFrame:
        newest = [of.known.newest_at or 0 for of in clusters.values()]
        return self._tables.of_clusters(
            clusters,
            since_at=[at - WINDOW_MICROS for at in newest],
            whole_at=[of.known.whole_at for of in clusters.values()],
        )

    def _parts(self, parts: Sequence[PollPart]) -> DataFrame:
        """Return a small table of parts of polls, each with the unit that it is counted from."""
        kinds = ("string", "string", "long", "long", "string")
        columns = zip(samples.PART, kinds, zip(*parts, strict=True), strict=True)
        return self._tables.small({name: (kind, values) for name, kind, values in columns})

    def _count_bad_records(
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
        counts = bad.groupBy("cluster", "reason").count().limit(MAX_REASONS).collect()
        for row in counts:
            reason, count = f"record_{row.reason}", row["count"]
            log.warning("%d records of %s: %s", count, row.cluster, reason)
            if row.cluster in clusters:
                of = clusters[row.cluster]
                of.counts = replace(of.counts, quarantined={**of.counts.quarantined, reason: count})
        return bad if counts else None

    def _carry(
        self, of_batch: DataFrame, key: str, fed: Mapping[str, Cluster], after: Carried
    ) -> Carried:
        """Write what is carried on, with the batch in it."""
        known = {c: state for c, state in after.clusters.items() if state.newest_at is not None}
        keep = [
            min(
                (state.newest_at or 0) - WINDOW_MICROS + 1,
                *state.open,
                *(fed[c].closing if c in fed else ()),
            )
            for c, state in known.items()
        ]
        bounds = self._tables.of_clusters(
            known, keep_at=keep, newest_at=[state.newest_at for state in known.values()]
        )
        self._tables.write(
            tables.STATE, key, windows.carried(self._tables.state(after), of_batch, bounds)
        )
        return replace(after, state=key, horizons=None)

    def _headings(self, fed: Mapping[str, Cluster], number: int) -> dict[str, Heading]:
        out = {}
        now = self._now()
        with ThreadPoolExecutor(CLAIMS) as claims:  # a store takes a while for each
            epochs = dict(zip(fed, claims.map(self._claim_epoch_once, fed), strict=True))
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
                newest=from_micros(of.known.newest_at or 0),
                published_at=now,
                counts=replace(counts, quarantined={**counts.quarantined, **segments}),
            )
        return out
