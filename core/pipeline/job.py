"""The job: batches of samples into partials, partials into windows, windows into a snapshot.

Exactly once: a batch that is run again (a crash before Spark's commit) overwrites its partials
unless they were complete, and a window file names the batches that it holds, so nothing is merged
twice. Windows that are open are in memory, and are made again from partials at the start, so
nothing hangs on Spark running a batch again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from core.clock import Clock
from core.errors import TrimtabError
from core.load import load_paths as layout
from core.load import spool
from core.load.snapshot.format import Counts
from core.load.snapshot.manifest import Manifest
from core.load.snapshot.writer import claim_epoch
from core.load.store import Root
from core.pipeline import checkpoint
from core.pipeline.intake import Intake
from core.pipeline.ledger import Batch, Ledger
from core.pipeline.publish import Publisher
from core.pipeline.source import new_segments, paths_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

QUIET_SECONDS = 0.5
STOP_SECONDS = 30.0
FIRST_BATCHES = 3


@dataclass(frozen=True, slots=True)
class Published:
    """One batch that ended: what became of its rows, and the snapshot of it."""

    batch: Batch
    manifest: Manifest | None


class Job:
    """Processes the batches of one cluster. One process holds the cluster's lease meanwhile.

    Snapshots are published below `snapshots`, everything else stays below `root`.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        cluster_id: str,
        clock: Clock,
        tell: Callable[[Published], None] = lambda _: None,
        snapshots: Root | None = None,
    ) -> None:
        self._spark = spark
        self._root = root
        self._snapshots = snapshots or root
        self._cluster_id = cluster_id
        self._clock = clock
        self._tell = tell
        self._ledger = Ledger(root, cluster_id)
        self._checkpoint = layout.checkpoint(root, cluster_id)
        epoch = claim_epoch(self._snapshots, cluster_id)
        self._publisher = Publisher(spark, root, cluster_id, epoch, self._snapshots)
        self._intake = Intake(spark, root, cluster_id, self._ledger, self._publisher)
        self._trouble: TrimtabError | None = None
        self._tidied: set[str] = set()
        self._processed = 0
        self._ending = False
        self._refused = False
        self._following = False

    def process(self, segments: DataFrame, number: int) -> None:
        """Take one batch from samples to snapshot; for the same number again the same comes out."""
        key = f"{checkpoint.query_id(self._checkpoint)}-{number:08d}"
        batch = self._ledger.begin(key, self._clock.now())
        if not batch.complete:
            batch = self._intake.take(paths_of(segments), batch)
            self._ledger.complete(batch)
        newest = self._ledger.newest(self._clock.now())
        if newest is None:
            self._told(Published(batch, None))
        else:
            rolled = self._publisher.merge(batch, newest)
            if rolled:
                self._publisher.roll_up(newest)
            counts = self._counts()
            manifest = self._publisher.publish(number, newest, self._clock.now(), counts)
            self._told(Published(batch, manifest))
            # What can be seen is seen; the rest of the work is for what comes next.
            self._publisher.settle(batch, newest)
            if not rolled:
                self._publisher.roll_up(newest)
            if self._following:
                self._publisher.prepare(newest)
        self._tidy(key, newest)

    def _told(self, published: Published) -> None:
        self._processed += 1
        self._tell(published)

    def _counts(self) -> Counts:
        """Return the counts of rows, and of segments that the gate refused."""
        counts = self._ledger.counts(self._clock.now())
        segments = {
            f"segment_{reason}": count
            for reason, count in spool.quarantined_segments(self._root, self._cluster_id).items()
        }
        return replace(counts, quarantined={**counts.quarantined, **segments})

    def _tidy(self, key: str, newest: datetime | None) -> None:
        self._done_with(self._ledger.settled(key))
        self._ledger.forget(self._clock.now())
        self._tidied &= self._ledger.keys()
        spool.delete_expired(self._root, self._cluster_id)
        if newest is not None:
            self._publisher.retire(newest)
        if self._publisher.windows.bloated():
            self._restore()

    def _done_with(self, batches: Iterable[Batch]) -> None:
        """Archive the segments of batches that Spark has committed."""
        for batch in batches:
            if batch.key in self._tidied:
                continue
            self._tidied.add(batch.key)
            for path in batch.segments():
                if path.exists():
                    spool.archive_segment(self._root, self._cluster_id, path)

    def _outgrown(self) -> bool:
        return checkpoint.outgrown(self._checkpoint)

    def _begin_anew(self) -> None:
        """Take away a checkpoint that has grown out; the next query counts its batches from 0.

        What complete batches had read is archived first and is not read again. Of a batch that
        was not complete nothing is in a window: its segments are read as if for the first time.
        """
        self._done_with(self._ledger.others(""))
        windows = self._publisher.windows
        for key in windows.partials():
            if self._ledger.complete_batch(key) is None:
                windows.drop_partial(key)
        checkpoint.take_away(self._checkpoint)
        # Ids of snapshots go up, as the epoch comes before the batch in them.
        self._publisher.take_over(claim_epoch(self._snapshots, self._cluster_id))

    def _restore(self) -> None:
        """Remember what is in complete batches' partials; without its checkpoint Spark cannot."""
        windows = self._publisher.windows
        batches = map(self._ledger.complete_batch, windows.partials())
        newest = self._ledger.newest(self._clock.now())
        windows.restore([batch for batch in batches if batch is not None], newest)

    def publish(self) -> Manifest | None:
        """Publish what windows on disk say, without a batch; None while there is nothing."""
        self._restore()
        now = self._clock.now()
        newest = self._ledger.newest(now)
        if newest is None:
            return None
        return self._publisher.publish(0, newest, now, self._counts())

    # -- running -----------------------------------------------------------------------------------

    def once(self) -> None:
        """Process what is in the spool and return."""
        self._guarded(lambda: self._start(None).awaitTermination())

    def run(
        self,
        trigger_seconds: float,
        keep_on: Callable[[], bool],
        *,
        first_seconds: float | None = None,
    ) -> None:
        """Process batches as segments come, until `keep_on` says no; the batch at work ends.

        The first few batches are looked for each `first_seconds`, so that first rates come soon.
        """

        def until_told() -> None:
            self._following = True
            if first_seconds is not None and keep_on():
                self._follow(first_seconds, lambda: keep_on() and self._processed < FIRST_BATCHES)
            while keep_on():
                self._follow(trigger_seconds, lambda: keep_on() and not self._outgrown())

        self._guarded(until_told)

    def _follow(self, trigger_seconds: float, keep_on: Callable[[], bool]) -> None:
        self._ending = self._refused = False
        query = self._start(trigger_seconds)
        try:
            while keep_on() and not query.awaitTermination(QUIET_SECONDS):
                pass
        finally:
            # The batch at work ends; one that would begin is refused and begins in the next query.
            self._ending = True
            deadline = time.monotonic() + STOP_SECONDS
            while query.isActive and query.status["isTriggerActive"]:
                if time.monotonic() > deadline:
                    break
                try:
                    query.awaitTermination(0.05)
                except StreamingQueryException:
                    if not self._refused:
                        raise
            query.stop()

    def _start(self, trigger_seconds: float | None) -> Any:
        if self._outgrown():
            self._begin_anew()
        spool.admit_segments(self._root, self._cluster_id)
        stream = new_segments(self._spark, self._root, self._cluster_id)
        writer = stream.writeStream.foreachBatch(self._safely).option(
            "checkpointLocation", str(self._checkpoint)
        )
        if trigger_seconds is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(
            processingTime=f"{round(trigger_seconds * 1000)} milliseconds"
        ).start()

    def _safely(self, segments: DataFrame, number: int) -> None:
        if self._ending:
            self._refused = True
            raise InterruptedError("the query ends before this batch")
        try:
            self.process(segments, number)
        except TrimtabError as error:
            # Spark would wrap it in its own words; ours are kept for the user.
            self._trouble = error
            raise

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do `work`; after a segment that went bad in the spool, take it out and begin again."""
        while True:
            self._restore()
            try:
                return work()
            except StreamingQueryException as error:
                if self._trouble is not None:
                    raise self._trouble from error
                swept = spool.quarantine_damaged(self._root, self._cluster_id)
                if swept == 0:
                    raise
                log.warning("%d bad segments went to quarantine", swept)
