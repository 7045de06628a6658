"""The job: batches of samples into partials, partials into windows, windows into a snapshot.

Exactly once: a batch that is run again (a crash before Spark's commit) overwrites its partials,
and a window file names the batches that it holds, so nothing is merged twice. What was complete
and not merged is merged at the start, so nothing hangs on Spark running it again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from core import files
from core.clock import Clock
from core.errors import TrimtabError
from core.load import layout, spool
from core.load.manifest import Manifest
from core.load.published import claim_epoch
from core.load.snapshot import Counts
from core.pipeline import windows
from core.pipeline.ledger import Batch, Ledger
from core.pipeline.publish import Publisher
from core.pipeline.source import read_spool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

QUIET_SECONDS = 0.5
STOP_SECONDS = 30.0
FIRST_BATCHES = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Published:
    """One batch that ended: what became of its rows, and the snapshot of it."""

    batch: Batch
    manifest: Manifest | None


class Job:
    """Processes the batches of one cluster. One process holds the cluster's lease meanwhile."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        cluster_id: str,
        clock: Clock,
        tell: Callable[[Published], None] = lambda _: None,
    ) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id
        self._clock = clock
        self._tell = tell
        self._ledger = Ledger(root, cluster_id)
        self._publisher = Publisher(spark, root, cluster_id, claim_epoch(root, cluster_id))
        self._trouble: TrimtabError | None = None
        self._tidied: set[str] = set()
        self._processed = 0

    def process(self, rows: DataFrame, number: int) -> None:
        """Take one batch from samples to snapshot; for the same number again the same comes out."""
        key = f"{self._query_id()}-{number:08d}"
        batch = self._ledger.begin(key, self._clock.now())
        judged = windows.judged(
            rows,
            cluster_id=self._cluster_id,
            now=batch.began_at,
            newest=self._ledger.newest_before(key),
        ).persist()
        try:
            batch = self._take_in(judged, batch)
        finally:
            judged.unpersist()
        self._ledger.complete(batch)
        self._publisher.merge(batch)
        newest = self._ledger.newest()
        manifest = None
        if newest is not None:
            manifest = self._publisher.publish(number, newest, self._clock.now(), self._counts())
        self._processed += 1
        self._tell(Published(batch, manifest))
        self._tidy(key, newest)

    def _take_in(self, judged: DataFrame, batch: Batch) -> Batch:
        """Write partials, placement and quarantine of a batch; return what was in it."""
        lines = windows.tally(judged).collect()
        fine = [line for line in lines if line.reason is None]
        polls = {(line.collector_id, line.poll_id) for line in fine}
        seen = self._ledger.seen(batch.key, polls)
        counted = [line for line in fine if (line.collector_id, line.poll_id) not in seen]
        quarantined: dict[str, int] = {}
        for line in lines:
            if line.reason is not None:
                quarantined[line.reason] = quarantined.get(line.reason, 0) + line.rows
        rows = windows.accepted(judged, sorted(seen)).persist()
        try:
            self._publisher.write_partial(batch.key, rows)
            accepted = rows.count()
            newest = max((_moment(line.newest) for line in counted), default=None)
            before = self._ledger.newest_before(batch.key)
            if newest is not None and (before is None or newest >= before):
                self._publisher.place(windows.placement(rows, newest).toArrow())
        finally:
            rows.unpersist()
        self._quarantine(judged, batch.key, quarantined)
        fine_rows = sum(line.rows for line in fine)
        return replace(
            batch,
            complete=True,
            read=sum(line.rows for line in lines),
            accepted=accepted,
            duplicate=fine_rows - accepted,
            late=sum(line.late for line in counted),
            quarantined=quarantined,
            newest=newest,
            windows=tuple(sorted({_moment(line.window_start) for line in counted})),
            polls=tuple(sorted(polls - seen)),
            files=tuple(sorted({line.file for line in lines})),
        )

    def _quarantine(self, judged: DataFrame, key: str, reasons: dict[str, int]) -> None:
        folder = layout.quarantine(self._root, self._cluster_id) / "rows" / f"b={key}"
        if not reasons:
            return
        bad = judged.where("reason IS NOT NULL").drop("window_start", "late")
        bad.coalesce(1).write.mode("overwrite").parquet(str(folder))
        note = {"reason": "rows", "rows": reasons}
        files.write_text(folder / "_rows.reason.json", json.dumps(note) + "\n")

    def _counts(self) -> Counts:
        """Return the counts of rows, and of segments that the gate refused."""
        counts = self._ledger.counts()
        segments = {
            f"segment_{reason}": count
            for reason, count in spool.quarantined_segments(self._root, self._cluster_id).items()
        }
        return replace(counts, quarantined={**counts.quarantined, **segments})

    def _tidy(self, key: str, newest: datetime | None) -> None:
        for batch in self._ledger.settled(key):
            if batch.key in self._tidied:
                continue
            self._tidied.add(batch.key)
            for path in batch.segments():
                if path.exists():
                    spool.archive(self._root, self._cluster_id, path)
            self._publisher.drop_partial(batch.key)
        self._ledger.forget(self._clock.now())
        spool.retire(self._root, self._cluster_id)
        if newest is not None:
            self._publisher.retire(newest)

    def _merge_the_rest(self) -> None:
        """Merge complete batches that a crash kept from it; without its checkpoint Spark cannot."""
        for key in self._publisher.partials():
            batch = self._ledger.complete_batch(key)
            if batch is not None:
                self._publisher.merge(batch)

    def _query_id(self) -> str:
        path = layout.checkpoint(self._root, self._cluster_id) / "metadata"
        return str(json.loads(path.read_text(encoding="utf-8"))["id"])[:8]

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
            if first_seconds is not None:
                self._follow(first_seconds, lambda: keep_on() and self._processed < FIRST_BATCHES)
            self._follow(trigger_seconds, keep_on)

        self._guarded(until_told)

    def _follow(self, trigger_seconds: float, keep_on: Callable[[], bool]) -> None:
        if not keep_on():
            return
        query = self._start(trigger_seconds)
        try:
            while keep_on() and not query.awaitTermination(QUIET_SECONDS):
                pass
        finally:
            deadline = time.monotonic() + STOP_SECONDS
            while query.isActive and query.status["isTriggerActive"]:
                if time.monotonic() > deadline:
                    break
                query.awaitTermination(0.05)
            query.stop()

    def _start(self, trigger_seconds: float | None) -> Any:
        spool.admit_all(self._root, self._cluster_id)
        stream = read_spool(self._spark, self._root, self._cluster_id)
        writer = stream.writeStream.foreachBatch(self._safely).option(
            "checkpointLocation", str(layout.checkpoint(self._root, self._cluster_id))
        )
        if trigger_seconds is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(
            processingTime=f"{round(trigger_seconds * 1000)} milliseconds"
        ).start()

    def _safely(self, rows: DataFrame, number: int) -> None:
        try:
            self.process(rows, number)
        except TrimtabError as error:
            # Spark would wrap it in its own words; ours are kept for the user.
            self._trouble = error
            raise

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do `work`; after a segment that went bad in the spool, take it out and begin again."""
        self._merge_the_rest()
        while True:
            try:
                return work()
            except StreamingQueryException as error:
                if self._trouble is not None:
                    raise self._trouble from error
                swept = spool.sweep(self._root, self._cluster_id)
                if swept == 0:
                    raise
                log.warning("%d bad segments went to quarantine", swept)


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
