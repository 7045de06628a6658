"""The recorder: polls a cluster and stores what has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from core.clock import Clock, SystemClock, sleep_until
from core.cluster.client import ClusterClient
from core.cluster.connect import Connection
from core.cluster.observer import Observer
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.load.load_source import newest_snapshot
from core.watch.timeline.changes import find_changes, keep_moves
from core.watch.timeline.event_sources import (
    AccessNotice,
    ConfigAccess,
    EventSource,
    LoadEvents,
    RunEvents,
    ThrottleEvents,
)
from core.watch.timeline.events import Event, Kind
from core.watch.timeline.group_changes import watch_in_thread
from core.watch.timeline.store import RETENTION, Timeline

GAP_SECONDS = 15.0
"""So much longer than looks are apart is a gap that is told: order and causes are lost in it."""
SET_BACK_SECONDS = 1.0
"""A clock that is set back by more is told: what follows has the times of the last look."""
NOTE_POLL_SECONDS = 5.0
FORGET_SECONDS = 3600.0
RETRY_SECONDS = 2.0
"""After a look that failed."""


class Recorder:
    """Records one cluster; for one thread."""

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        timeline: Timeline,
        sources: Sequence[EventSource] = (),
    ) -> None:
        self.observer = Observer(client, clock, sizes=False)
        self._clock, self._timeline = clock, timeline
        self._sources = sources
        self.troubles: list[TrimtabError] = []
        """Why sources had nothing to tell at the last look."""
        self._untold: list[Event] = []
        """What sources told and could not be kept yet: they tell it once."""
        self._last = self._last_recorded_state()
        self._interval_seconds = 0.0
        """How far this look and the next should be apart: a slow cluster is asked less often."""
        self._forgotten = self._note_due = float("-inf")

    def _last_recorded_state(self) -> ClusterState | None:
        """Return the cluster as the recorder before this one saw it last."""
        span = self._timeline.span
        last = None if span is None else self._timeline.state_at(span[1])
        noted = self._timeline.noted
        if last is None or noted is None or (last.fetched_at - noted).total_seconds() < GAP_SECONDS:
            return last
        # The clock was set back before: what was seen then has times that are yet to come.
        return replace(last, fetched_at=noted)

    def look(self) -> list[Event]:
        """Look once, keep what has changed since the last look and what sources tell; return it.

        Raises UnreachableError or AccessDeniedError; TimelineError when it cannot be kept: the
        next look sees it as a change then, and keeps what was told with its own.
        """
        state, last = self.observer.poll(), self._last
        if last is not None and last.cluster_id == state.cluster_id:
            if state.moves_unknown:
                state = keep_moves(last, state)
            events = find_changes(last, state)
            away = (state.fetched_at - last.fetched_at).total_seconds()
            if away > GAP_SECONDS + self._interval_seconds or away < -SET_BACK_SECONDS:
                events.insert(0, Event(state.fetched_at, Kind.GAP, None, round(away)))
            self._timeline.append(events, state)
        else:
            events = []
            self._timeline.begin(state)
        self._last = state
        self._interval_seconds = self.observer.metadata_interval_seconds
        self._untold += self._poll_sources(state)
        self._timeline.report(self._untold)
        news, self._untold = self._untold, []
        now = self._clock.monotonic()
        if now - self._note_due >= NOTE_POLL_SECONDS:
            # That nothing changed is kept, too: else who comes next takes it for a time unseen.
            self._note_due = now
            self._timeline.note_poll(state.fetched_at)
        if now - self._forgotten >= FORGET_SECONDS:
            self._forgotten = now
            self._timeline.forget(self._clock.now() - RETENTION)
        return [*events, *news]

    def _poll_sources(self, state: ClusterState) -> list[Event]:
        self.troubles = []
        events: list[Event] = []
        for source in self._sources:
            try:
                events += source(state)
            except TrimtabError as error:
                self.troubles.append(error)
        return events


def run_recorder(
    recorder: Recorder,
    clock: Clock,
    *,
    keep_on: Callable[[], bool],
    report: Callable[[list[Event] | TrimtabError], None],
) -> None:
    """Look until `keep_on` says no; what fails is told, and tried again."""
    while keep_on():
        try:
            events = recorder.look()
        except TrimtabError as error:
            report(error)
            wait = RETRY_SECONDS
        else:
            if events:
                report(events)
            for trouble in recorder.troubles:
                report(trouble)
            wait = recorder.observer.seconds_until_due()  # as often as the cluster likes it
        sleep_until(clock, clock.monotonic() + wait, keep_on)


def record_cluster(
    connection: Connection,
    cluster_id: str,
    timeline: Timeline,
    snapshots: str | None = None,
    *,
    keep_on: Callable[[], bool],
    report: Callable[[list[Event] | TrimtabError], None],
) -> None:
    """Record a cluster until `keep_on` says no; what fails is told, and tried again.

    Load is what lies under `snapshots`, else this machine's own. `report` is called by two threads.
    """
    clock, span = SystemClock(), timeline.span
    # These go on where the recorder before left off.
    runs = [event.at for event in timeline.notes(kinds=Kind.RUN)]
    since = max((*runs, datetime.now(UTC) if span is None else span[0]))
    load, throttles = timeline.notes(kinds=Kind.LOAD), timeline.notes(kinds=Kind.CONFIG)
    moves = AccessNotice(Kind.ASSIGNMENT, "what is in flight")
    event_sources: tuple[EventSource, ...] = (
        RunEvents(cluster_id, clock, since).news,
        LoadEvents(lambda: newest_snapshot(cluster_id, snapshots), clock, load).news,
        ConfigAccess(clock).news,
        lambda state: moves.notice(state.fetched_at, state.moves_unknown),
        ThrottleEvents(connection.client, cluster_id, clock, throttles).news,
    )
    recorder = Recorder(connection.client, connection.clock, timeline, event_sources)
    with watch_in_thread(connection.client, cluster_id, keep_on, report) as going:
        run_recorder(recorder, clock, keep_on=going, report=report)
