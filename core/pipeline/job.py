"""The job: batches of samples into snapshots, as Spark tells of what is new.

Exactly once: a batch goes on from what the last complete one has left, writes under its own key,
and is complete when the ledger says so. Run again before that it writes the same again; run again
after that it does nothing.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from core import bug_log, files, paths
from core.clock import Clock
from core.errors import DocumentError, TrimtabError
from core.load import load_paths as layout
from core.load import spool
from core.load.samples import from_micros
from core.load.store import Root
from core.load.windows import delete_expired
from core.pipeline import tables
from core.pipeline.intake import Intake
from core.pipeline.ledger import Ledger, is_of_many, taken_by_earlier_version
from core.pipeline.publish import Published
from core.pipeline.session import suit
from core.pipeline.source import MANY, Source, Spool
from core.pipeline.tables import Tables
from core.text.json_text import parse_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

QUIET_SECONDS = 0.5
STOP_SECONDS = 30.0
EXPIRY_SECONDS = 600.0
"""How often to look for what has been kept for long enough."""
NO_ROOM = re.compile(
    "No space left on device|Permission denied|Read-only file system"
    "|[Pp]arent path is not a directory"
)
BEHIND = timedelta(minutes=1)
"""How old the newest sample may be before the pipeline goes on without a rest."""
REST = 4.0
"""A fifth of the time at most goes to batches: others work on the machine, too."""
FIRST_BATCHES = 3
LIMIT_BYTES = 1 << 20
"""Of the largest list of segments: 14 hours of polls at ten seconds."""
OUTDATED = ("partials/v2", "batches/v1", "hours/v1", "checkpoint")
"""What versions up to 0.2 carried from batch to batch, below the load root."""


class Job:
    """Processes the batches of one source. One process holds the lease of it meanwhile.

    Snapshots are published below `snapshots`, everything else stays below `root`. The job's own
    files have the name `name`: a cluster's id, or what stands for many.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        name: str,
        clock: Clock,
        report: Callable[[list[Published]], None] = lambda _: None,
        snapshots: Root | None = None,
        source: Source | None = None,
    ) -> None:
        self._spark = spark
        self._root = root
        self._name = name
        self._clock = clock
        self._report = report
        self._source: Source = Spool(root, name) if source is None else source
        self._ledger = Ledger(layout.batches(root, name))
        self._tables = Tables(spark, layout.tables(root, name))
        self._checkpoint = layout.checkpoint(root, name)
        self._alone = not is_of_many(name)
        self._intake = Intake(root, self._tables, snapshots or root, clock.now, alone=self._alone)
        self._trouble: TrimtabError | None = None
        self._settled: set[str] = set()
        self._processed = 0
        self._ending = threading.Event()
        self._refused = False
        self._rest = 0.0
        self._expiry_due = 0.0
        self._newest: datetime | None = None
        self._check_tables()
        self._remove_outdated_state()

    def _check_tables(self) -> None:
        """Raise DocumentError where the ledger names what is not there."""
        carried = self._ledger.carried
        used = [
            *((tables.STATE, part) for part in [carried.state] if part),
            *((tables.HORIZONS, part) for part in [carried.horizons] if part),
            *((tables.WINDOWS, part.name) for part in carried.windows),
            *((tables.HOURS, part.name) for part in carried.hours),
        ]
        if not all(self._tables.has(table, part) for table, part in used):
            raise self._damaged()

    def _damaged(self) -> DocumentError:
        place = layout.tables(self._root, self._name)
        remedy = "Run `trimtab pipeline rebuild`: it makes it anew from the segments kept."
        if not self._alone:
            ledger = layout.batches(self._root, self._name)
            remedy = f"Delete {place} and {ledger}: the job begins anew with what comes then."
        return DocumentError(
            "What the pipeline carries from batch to batch is damaged.",
            detail=str(place),
            next=remedy,
        )

    def _remove_outdated_state(self) -> None:
        """Put away segments that an earlier version had taken, and delete what it carried."""
        if isinstance(self._source, Spool):
            self._source.settle(taken_by_earlier_version(self._root, self._name))
        for kind in OUTDATED:
            folder = self._root / kind / paths.cluster_folder(self._name)
            shutil.rmtree(folder, ignore_errors=True)

    def process(self, arrived: DataFrame, number: int) -> None:
        """Take one batch from samples to snapshots; for the same number again nothing changes."""
        key = f"{query_id(self._checkpoint)}-{number:08d}"
        batch = self._ledger.begin(key, self._clock.now())
        if not batch.complete:
            began = time.monotonic()
            carried = self._ledger.carried
            contents = self._source.arrived(self._spark, arrived, carried.offsets)
            if contents is None:
                after = replace(carried, number=carried.number + 1)
                batch = replace(batch, carried=after)
            else:
                read: list[int] = []

                def report(published: list[Published], read: list[int] = read) -> None:
                    read += [publication.counts.read for publication in published]
                    newest = [self._newest, *(publication.newest for publication in published)]
                    self._newest = max(filter(None, newest), default=None)
                    self._report(published)

                try:
                    after = self._intake.take(contents, batch, carried, report)
                finally:
                    contents.release()
                batch = replace(
                    batch,
                    carried=after,
                    units=contents.units,
                    rows=sum(read),
                    seconds=round(time.monotonic() - began, 3),
                )
            self._ledger.complete(batch)
            suit(self._spark, batch.rows)
        self._processed += 1
        self._clean_up_batches(key)

    def publish(self) -> None:
        """Publish what has been carried, without a batch."""
        self._intake.publish(self._ledger.carried)

    def _clean_up_batches(self, key: str) -> None:
        for batch in self._ledger.settled(key):
            if batch.key not in self._settled:
                self._settled.add(batch.key)
                self._source.settle(batch.units)
        self._ledger.forget()
        used = list(self._ledger.in_use())
        self._tables.retain(tables.STATE, [c.state for c in used if c.state])
        self._tables.retain(tables.HORIZONS, [c.horizons for c in used if c.horizons])
        self._tables.retain(tables.WINDOWS, [p.name for c in used for p in c.windows])
        self._tables.retain(tables.HOURS, [p.name for c in used for p in c.hours])
        if time.monotonic() >= self._expiry_due:
            self._expiry_due = time.monotonic() + EXPIRY_SECONDS
            for cluster_id, state in self._ledger.carried.clusters.items():
                spool.delete_expired(self._root, cluster_id)
                if state.newest_at is not None:
                    delete_expired(self._root, cluster_id, from_micros(state.newest_at))

    # -- running -----------------------------------------------------------------------------------

    def once(self) -> None:
        """Process what is there and return."""
        self._run_past_bad_segments(lambda: self._start(None).awaitTermination())

    def run(
        self,
        trigger_seconds: float,
        keep_on: Callable[[], bool],
        *,
        first_seconds: float | None = None,
        rest: float = REST,
    ) -> None:
        """Process batches as samples come, until `keep_on` says no; the batch at work ends.

        The first few batches are looked for each `first_seconds`, so that first rates come soon.
        After each of the others comes a pause, `rest` times as long as the batch took.
        """
        self._rest = rest

        def until_stopped() -> None:
            if first_seconds is not None and keep_on():
                self._follow(first_seconds, lambda: keep_on() and self._processed < FIRST_BATCHES)
            while keep_on():
                self._follow(trigger_seconds, lambda: keep_on() and not self._is_reset_due())

        self._run_past_bad_segments(until_stopped)

    def _follow(self, trigger_seconds: float, keep_on: Callable[[], bool]) -> None:
        self._ending.clear()
        self._refused = False
        query = self._start(trigger_seconds)
        try:
            while keep_on() and not query.awaitTermination(QUIET_SECONDS):
                pass
        finally:
            # The batch at work ends; one that would begin is refused and begins in the next query.
            self._ending.set()
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
        if self._is_reset_due():
            self._reset_checkpoint()
        paths.make_folder(self._checkpoint.parent)
        writer = (
            self._source.stream(self._spark)
            .writeStream.foreachBatch(self._safely)
            .option("checkpointLocation", f"file://{self._checkpoint.absolute()}")
        )
        if trigger_seconds is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(
            processingTime=f"{round(trigger_seconds * 1000)} milliseconds"
        ).start()

    def _is_reset_due(self) -> bool:
        return outgrown(self._checkpoint, 1 if self._alone else MANY)

    def _reset_checkpoint(self) -> None:
        """Take away a checkpoint that has grown out; the next query counts its batches from 0.

        What complete batches had read is put away first and is not read again.
        """
        for batch in self._ledger.complete_batches():
            self._source.settle(batch.units)
        take_away(self._checkpoint)

    def _safely(self, arrived: DataFrame, number: int) -> None:
        if self._ending.is_set():
            self._refused = True
            raise InterruptedError("the query ends before this batch")
        began = time.monotonic()
        try:
            self.process(arrived, number)
        except Exception as error:
            # Spark would wrap it in its own words; ours are kept for the user.
            self._trouble = self._in_words(error)
            raise
        if self._processed > FIRST_BATCHES and not self._is_behind():
            self._ending.wait(self._rest * (time.monotonic() - began))

    def _batch_error(self, error: Exception) -> TrimtabError:
        """Return what was wrong with a batch in our words, else what Spark says."""
        return self._in_words(error) if self._trouble is None else self._trouble

    def _is_behind(self) -> bool:
        """Return whether samples wait that are much older than now."""
        newest = self._newest
        return newest is not None and self._clock.now() - newest > BEHIND

    def _in_words(self, error: Exception) -> TrimtabError:
        """Return what a user is told of a batch that could not end, while Spark can be asked."""
        if isinstance(error, TrimtabError):
            return error
        text = str(error)
        if str(layout.tables(self._root, self._name)) in text and not NO_ROOM.search(text):
            return self._damaged()
        causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE) or text.strip().splitlines()
        words = NO_ROOM.search(text)
        why = words[0] if words else (causes or [type(error).__name__])[-1]
        return TrimtabError(
            f"A batch could not be processed: {why}.",
            detail="" if words else bug_log.log_bug(),
            next="Nothing is lost: it is run again with the next start. "
            f"Check that there is room below {self._root}, and that it may be written.",
        )

    def _run_past_bad_segments(self, work: Callable[[], None]) -> None:
        """Do `work`; after a segment that went bad in the spool, take it out and begin again."""
        suit(self._spark, 0)
        while True:
            self._trouble = None
            try:
                return work()
            except (StreamingQueryException, Py4JError) as error:
                if (swept := self._source.sweep()) == 0:
                    raise self._batch_error(error) from error
                log.warning("%d bad segments went to quarantine", swept)


# -- Spark's checkpoint ----------------------------------------------------------------------------
# Spark names every segment that it has ever read in each tenth file of `sources/0`, and forgets
# none. The ledger knows what has been counted, so a checkpoint may go when no query runs.


def query_id(folder: Path) -> str:
    """Return the id of the query that the checkpoint is of."""
    return str(parse_json((folder / "metadata").read_text(encoding="utf-8"))["id"])[:8]


def outgrown(folder: Path, times: int = 1) -> bool:
    """Return whether the checkpoint is to be taken away; `times` as long a list may be kept."""
    lists = (folder / "sources" / "0").glob("*")
    return max((_size(path) for path in lists), default=0) > times * LIMIT_BYTES


def take_away(folder: Path) -> None:
    """Delete the checkpoint; killed meanwhile, it is there whole or not at all."""
    aside = folder.with_name(f"{files.TEMPORARY}{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    files.sync(folder.parent)
    shutil.rmtree(aside)


def _size(path: Path) -> int:
    """Return a file's size; 0 for what Spark has just deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
