"""Polls consumer groups while the Groups screen is open, and reads what was recorded before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from textual.timer import Timer

from core import paths
from core.errors import TrimtabError
from core.watch.groups.lag import GroupSample, GroupSamples, GroupView, fetch_group_sample
from core.watch.groups.rebalances import Rebalance, WatchedGroups, start_watching
from core.watch.timeline.events import Kind, Note
from core.watch.timeline.store import Timeline
from tui.screen.base import DashboardScreen
from tui.session import Freshness

BACK = timedelta(days=7)
MAX_REBALANCES = 2_000
_BY = "group "


def merge_rebalances(
    cluster_id: str, until: datetime, observed: Iterable[Rebalance]
) -> tuple[Rebalance, ...]:
    """Return what was recorded, and what was `observed` here of groups that nobody records."""
    recorded = read_rebalances(cluster_id, until)
    known = {rebalance.group for rebalance in recorded}
    unrecorded = (rebalance for rebalance in observed if rebalance.group not in known)
    return tuple(
        sorted((*recorded, *unrecorded), key=lambda rebalance: rebalance.at)[-MAX_REBALANCES:]
    )


def read_rebalances(cluster_id: str, until: datetime) -> tuple[Rebalance, ...]:
    """Return the newest that the timeline has, the oldest first; none where it cannot be read."""
    try:
        timeline = Timeline.read(paths.timeline_file(cluster_id))
    except TrimtabError:
        return ()
    try:
        events = deque(timeline.notes(until - BACK, until, Kind.GROUP), MAX_REBALANCES)
    except TrimtabError:
        return ()
    finally:
        timeline.close()
    return tuple(
        Rebalance(event.at, event.after.by.removeprefix(_BY), event.after.text, event.topic)
        for event in events
        if isinstance(event.after, Note) and event.after.by.startswith(_BY)
    )


LOOK_SECONDS = 1.0
KEPT = 1_000
"""So many rebalances are kept of those that this screen has seen."""
COST = 10.0
"""A look that takes long is not repeated before so many times its duration."""


class GroupsPoller:
    """Asks the cluster while its screen is open, and the timeline for what was before."""

    def __init__(self, screen: DashboardScreen) -> None:
        self._screen = screen
        self.followed: GroupSamples | None = None
        self.views: tuple[GroupView, ...] = ()
        self._watched: WatchedGroups | None = None
        """What rebalances are told from; None until this screen has looked since it was opened."""
        self._before: tuple[Rebalance, ...] = ()
        self._recalls = 0
        """Counts questions for those: a later answer holds more."""
        self._happened: tuple[Rebalance, ...] = ()
        self.error: TrimtabError | None = None
        self._looking = False
        self.age: Freshness | None = None
        self._due = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look at once, and from now on."""
        if self._timer is None:
            self._timer = self._screen.set_interval(LOOK_SECONDS, self._follow)
        self._timer.resume()
        self._watched = None  # what happened while another screen was open, was recorded
        self.look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.pause()

    def _follow(self) -> None:
        dashboard = self._screen.dashboard
        if not dashboard.session.paused and dashboard.monotonic() >= self._due:
            self.look()
        dashboard.draw()  # an age may read differently

    def look(self) -> None:
        """Have a worker look, unless one does."""
        connection = self._screen.session.connection
        if connection is None or self._looking:
            return
        self._looking, before = True, self.followed

        def work() -> None:
            began = time.monotonic()
            outcome: GroupSamples | TrimtabError
            views: tuple[GroupView, ...] = ()
            try:
                newest = fetch_group_sample(connection.client, connection.clock)
            except TrimtabError as error:
                outcome = error
            else:
                outcome = before.then(newest) if before else GroupSamples(newest)
                views = outcome.views
                for view in views:  # is kept with it: here, or as the screen draws
                    _ = view.lag, view.is_lower_bound, view.pace, view.idle
            took = time.monotonic() - began
            self._screen.call_later(self._take, outcome, views, connection.clock.now(), took)

        self._screen.run_worker(work, thread=True, group="groups")

    def _take(
        self,
        outcome: GroupSamples | TrimtabError,
        views: tuple[GroupView, ...],
        at: datetime,
        seconds: float,
    ) -> None:
        """Take what a look came to that began `seconds` ago, or why it failed."""
        self._looking = False
        now = self._screen.dashboard.monotonic()
        interval = max(LOOK_SECONDS, COST * seconds)
        self._due = now + interval - LOOK_SECONDS / 2  # the timer ticks a little early or late
        if isinstance(outcome, TrimtabError):
            self.error = outcome
        else:
            self.error, self.followed, self.views = None, outcome, views
            self._update_rebalances(outcome.newest, at)
            self.age = Freshness(now - seconds, interval)
        self._screen.dashboard.draw()

    def _update_rebalances(self, look: GroupSample, at: datetime) -> None:
        """Tell what has happened since the last look; before the first one, what was recorded."""
        if self._watched is None:
            observed = self.happened
            self._watched, self._before, self._happened = start_watching(look.groups), observed, ()
            state = self._screen.session.state
            cluster_id = state.cluster_id if state else ""

            self._recalls += 1
            recall = partial(merge_rebalances, cluster_id, at, observed)
            take = partial(self._show_past_rebalances, self._recalls)
            self._screen.run_in_thread("rebalances", recall, take, exclusive=False)
            return
        # A coordinator that does not answer hides its groups: none has lost its members by that.
        then = self._watched.then(at, look.groups, complete=look.is_complete)
        self._watched, happened = then
        self._happened = (*self._happened, *happened)[-KEPT:]

    def _show_past_rebalances(self, nth: int, before: tuple[Rebalance, ...]) -> None:
        """Take what was recorded before this screen looked."""
        if nth == self._recalls:
            self._before = before
        self._screen.show(self._screen.session)

    @property
    def happened(self) -> tuple[Rebalance, ...]:
        """Return every rebalance that is known, the oldest first."""
        return (*self._before, *self._happened)
