"""Publishes to a timeline what no poll shows: runs, client health, drills, decisions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from core import paths
from core.cluster.drills.drill import Drill, DrillTarget, describe_drill
from core.watch.timeline.database_file import TimelineError
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.store import Timeline

log = logging.getLogger("trimtab.timeline")


class Publisher:
    """Adds to a cluster's timeline, beside its recorder; for one thread.

    What is told is beside the point of whoever tells it: where it cannot be kept (a full disk, a
    newer format) that is logged once, and `trouble` says why.
    """

    def __init__(self, cluster_id: str, path: Path | None = None) -> None:
        self._path = path or paths.timeline_file(cluster_id)
        self._timeline: Timeline | None = None
        self.trouble: TimelineError | None = None

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *error: object) -> None:
        if self._timeline is not None:
            self._timeline.close()
            self._timeline = None

    def report(
        self,
        kind: Kind,
        *,
        by: str,
        text: str,
        brokers: Sequence[int] = (),
        at: datetime | None = None,
    ) -> None:
        """Tell one thing: `by` whom, `text` a clause in the past tense; `at` now when not given."""
        note = Note(by, text, tuple(brokers))
        self.publish_all([Event(at or datetime.now(UTC), kind, None, note)])

    def publish_all(self, events: Sequence[Event]) -> None:
        """Tell several things at once."""
        if not events:
            return
        try:
            if self._timeline is None:
                self._timeline = Timeline.write(self._path)
            self._timeline.report(events)
            self.trouble = None
        except TimelineError as error:
            if self.trouble is None:
                log.warning("%s", error)
            self.trouble = error


def run_drill(ground: DrillTarget, drill: Drill) -> str | None:
    """Do a drill, and return what was done; None where there was nothing to do.

    It is told as of when it began: what follows from it comes after it. Raises TrimtabError when
    it could not be done.
    """
    began = datetime.now(UTC)
    if not ground.run(drill):
        return None
    text = describe_drill(drill)
    if ground.timeline_id is not None:
        with Publisher(ground.timeline_id) as publisher:
            brokers = () if drill.broker is None else (drill.broker,)
            publisher.report(Kind.FAULT, by="sandbox", text=text, brokers=brokers, at=began)
    return text
