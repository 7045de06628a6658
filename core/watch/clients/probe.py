"""The probe: sends at a steady rate, follows brokers that join and leave, reports each second."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from core import files
from core.clock import Clock
from core.cluster.connect import Connection
from core.cluster.probe.round_trip import ProbeLayout, RoundTripProbe
from core.errors import AccessDeniedError, IncompleteError
from core.load import load_paths as layout
from core.run.audited_client import audited
from core.watch.clients.health_detector import HealthDetector
from core.watch.clients.probe_topic import (
    RATE,
    TOPIC,
    LayoutFollower,
    create_probe_topic,
    partitions_by_broker,
)
from core.watch.clients.report import ClientEvent, ProbeReport, report_to_json
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.publisher import Publisher

REPORT_SECONDS = 1.0
ABSENT_SECONDS = 10.0
"""For how long a topic may seem to be gone: a broker that has just begun knows of none."""
_MIN_WAIT_SECONDS = 0.001
_MAX_BEHIND_SECONDS = 1.0
"""What was not sent for longer than this (the machine slept) stays unsent."""


class ProbeLoop:
    """One probe of one cluster, for one thread; `layout` tells how its topic lies, if it is new."""

    def __init__(
        self,
        pings: RoundTripProbe,
        layout: Callable[[], ProbeLayout | None],
        cluster_id: str,
        clock: Clock,
    ) -> None:
        self._pings, self._layout = pings, layout
        self._cluster_id, self._clock = cluster_id, clock
        self._detector = HealthDetector()
        self._order: list[int] = []
        self._absent_since: float | None = None
        self._sent = 0
        self._next_send = self._next_report = clock.monotonic()

    def run(self, keep_on: Callable[[], bool], report: Callable[[ProbeReport], None]) -> None:
        """Probe until `keep_on` says no, reporting once a second.

        Raises IncompleteError when the topic is deleted, AccessDeniedError when rights are missing.
        """
        while keep_on():
            self._follow()
            now = self._clock.monotonic()
            if now - self._next_send > _MAX_BEHIND_SECONDS:
                self._next_send = now
            while self._order and self._next_send <= now:
                self._pings.send(self._order[self._sent % len(self._order)])
                self._sent += 1
                self._next_send += 1 / (RATE * len(self._order))
            due = min(self._next_send if self._order else now + REPORT_SECONDS, self._next_report)
            for heard in self._pings.poll_results(max(_MIN_WAIT_SECONDS, due - now)):
                self._detector.hear(heard)
            now = self._clock.monotonic()
            if now >= self._next_report:
                self._next_report = max(self._next_report + REPORT_SECONDS, now)
                at = self._clock.now()
                events = tuple(
                    ClientEvent(at - timedelta(seconds=now - one.at), one.text, one.brokers)
                    for one in self._detector.look(now)
                )
                report(ProbeReport(at, self._cluster_id, self._detector.health(), events))
                if self._detector.denied:
                    verb = "read" if self._detector.denied == "fetch" else "write to"
                    raise AccessDeniedError(
                        f"The probe may not {verb} its topic.",
                        next="It needs the rights to describe, write to and read that topic.",
                    )

    def _follow(self) -> None:
        layout = self._layout()
        if layout is None:
            return
        now = self._clock.monotonic()
        if layout.partitions is None:
            self._detector.forget_pending()
            if self._absent_since is None:
                self._absent_since = now
            if now - self._absent_since < ABSENT_SECONDS:
                return
            raise IncompleteError(
                "The topic of the probe is gone: somebody has deleted it.",
                next="Begin again: trimtab probe makes it anew.",
            )
        self._absent_since = None
        found = partitions_by_broker(layout.partitions)
        self._detector.follow(found.keys() | layout.brokers, layout.brokers)
        self._order = sorted(found)
        self._pings.set_partitions(found)


PUBLISHER = "probe"
"""Who the timeline names."""


class ReportWriter:
    """Keeps reports: what happened on the timeline, the last one in the file `place`.

    What cannot be kept ends no probe: it is said once, and tried again with the next report.
    """

    def __init__(self, publisher: Publisher, place: Path, say: Callable[[str], None]) -> None:
        self._publisher, self._place, self._say = publisher, place, say
        self._failed = False

    def take(self, report: ProbeReport) -> None:
        notes = ((one.at, Note(PUBLISHER, one.text, one.brokers)) for one in report.events)
        self._publisher.publish_all([Event(at, Kind.CLIENT, None, note) for at, note in notes])
        try:
            files.replace_text(self._place, json.dumps(report_to_json(report)))
        except OSError as error:
            if not self._failed:
                why = error.strerror or str(error)
                self._say(f"No dashboard can show this: {self._place} cannot be written: {why}.")
            self._failed = True
        else:
            self._failed = False


def run_probe(
    connection: Connection,
    root: Path,
    *,
    keep_on: Callable[[], bool],
    on_report: Callable[[ProbeReport], None],
    say: Callable[[str], None],
) -> None:
    """Probe until `keep_on` says no; for whoever holds the cluster's lease in this role.

    What happens goes on the timeline; the last report is a file below `root`, which `on_report`
    beside it gets each second. Raises UnreachableError, AccessDeniedError, IncompleteError.
    """
    state = connection.client.describe_cluster()
    create_probe_topic(connection.client, state, connection.clock)
    place = layout.clients(root, state.cluster_id)
    pinger = RoundTripProbe(connection.address, TOPIC)
    follower = LayoutFollower(pinger, audited(connection.client, state.cluster_id, None), say)
    with Publisher(state.cluster_id) as publisher:
        kept = ReportWriter(publisher, place, say)

        def report(found: ProbeReport) -> None:
            kept.take(found)
            on_report(found)

        try:
            ProbeLoop(pinger, follower.layout, state.cluster_id, connection.clock).run(
                keep_on, report
            )
        finally:
            follower.close()
            pinger.close()
            place.unlink(missing_ok=True)
