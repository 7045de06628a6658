"""The Groups: who reads what, how far behind, and whether that grows.

While it is open a worker looks at the groups, as often as the cluster likes it; else nobody does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime

from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from core.cluster.state import TopicPartition
from core.errors import TrimtabError
from core.watch.following import Followed
from core.watch.groups import GroupView, Look, look, saved_views
from core.watch.rebalances import Rebalance, Watched, watching
from tui.actions import GROUPS, bindings_of
from tui.group_history import recorded_rebalances
from tui.group_view import (
    GroupsView,
    Order,
    at_partition,
    chosen_of,
    listed,
    partitions_of,
)
from tui.map_view import Lit
from tui.screens.cursor import CursorKeys
from tui.screens.filtering import Filtering
from tui.session import Freshness, Session, age_words
from tui.widgets.group_detail import PartitionHit
from tui.widgets.groups_page import GroupHit, groups_lines
from tui.widgets.page import Page

LOOK_SECONDS = 1.0
KEPT = 1_000
"""So many rebalances are kept of those that this screen has seen."""
COST = 10.0
"""A look that takes long is not repeated before so many times its duration."""


class GroupsScreen(CursorKeys, Filtering):
    """All groups, and what the chosen one reads; or only that."""

    PLACE = GROUPS
    BINDINGS = bindings_of(GROUPS)

    class Looked(Message):
        """A worker has looked at the groups, or could not."""

        def __init__(
            self, look: Look | None, at: datetime, error: TrimtabError | None, seconds: float
        ) -> None:
            super().__init__()
            self.look, self.at, self.error, self.seconds = look, at, error, seconds

    class Recalled(Message):
        """A worker has read what was recorded before this screen looked."""

        def __init__(self, before: tuple[Rebalance, ...]) -> None:
            super().__init__()
            self.before = before

    def __init__(self) -> None:
        super().__init__()
        self._followed: Followed | None = None
        self._views: tuple[GroupView, ...] = ()
        self._watched: Watched | None = None
        """What rebalances are told from; None until this screen has looked since it was opened."""
        self._before: tuple[Rebalance, ...] = ()
        self._happened: tuple[Rebalance, ...] = ()
        self._error: TrimtabError | None = None
        self._looking = False
        self._age: Freshness | None = None
        self._due = 0.0
        self._words = ""
        self._order = Order.LAG
        self._partition_order = Order.NAME
        self._id: str | None = None
        """The chosen group; None is the first one."""
        self._last: GroupView | None = None
        """The chosen group as it was seen last, should it vanish."""
        self._tp: TopicPartition | None = None
        self._inside = False
        self._timer: Timer | None = None

    def compose_body(self) -> Iterable[Widget]:
        yield Page(id="groups-page")

    # -- looking ---------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self._timer = self.set_interval(LOOK_SECONDS, self._follow)

    def on_screen_suspend(self) -> None:
        if self._timer is not None:
            self._timer.pause()

    def on_screen_resume(self) -> None:
        """Look at once; Textual calls the handler that draws, too."""
        if self._timer is not None:
            self._timer.resume()
        self._watched = None  # what happened while another screen was open, was recorded
        self._look()

    def _follow(self) -> None:
        if not self.session.paused and self.trimtab.monotonic() >= self._due:
            self._look()
        self.trimtab.draw()  # an age may read differently

    def _look(self) -> None:
        """Have a worker look, unless one does; the answer comes as `Looked`."""
        connection = self.session.connection
        if connection is None or self._looking:
            return
        self._looking = True

        def work() -> None:
            began = time.monotonic()
            found, failed = None, None
            try:
                found = look(connection.client, connection.clock)
            except TrimtabError as error:
                failed = error
            took = time.monotonic() - began
            self.post_message(self.Looked(found, connection.clock.now(), failed, took))

        self.run_worker(work, thread=True, group="groups")

    def look_again(self) -> None:
        self._look()

    def on_groups_screen_looked(self, message: Looked) -> None:
        self._looking = False
        now = self.trimtab.monotonic()
        interval = max(LOOK_SECONDS, COST * message.seconds)
        self._due = now + interval - LOOK_SECONDS / 2  # the timer ticks a little early or late
        self._error = message.error
        if message.look is not None:
            follow = self._followed
            self._followed = follow.then(message.look) if follow else Followed(message.look)
            self._views = self._followed.views
            self._take_rebalances(message.look, message.at)
            self._age = Freshness(now - message.seconds, interval)
        self.trimtab.draw()

    def _take_rebalances(self, look: Look, at: datetime) -> None:
        """Tell what has happened since the last look; before the first one, what was recorded."""
        if self._watched is None:
            self._watched, self._happened = watching(look.groups), ()
            state = self.session.state
            cluster_id = state.cluster_id if state else ""

            def recall() -> None:
                self.post_message(self.Recalled(recorded_rebalances(cluster_id, at)))

            self.run_worker(recall, thread=True, group="rebalances")
            return
        # A coordinator that does not answer hides its groups: none has lost its members by that.
        self._watched, happened = self._watched.then(at, look.groups, complete=False)
        self._happened = (*self._happened, *happened)[-KEPT:]

    def on_groups_screen_recalled(self, message: Recalled) -> None:
        self._before = message.before
        self.show(self.session)

    # -- drawing ---------------------------------------------------------------------------------

    def _view(self, session: Session) -> GroupsView:
        saved = session.connection is None and session.address is None
        groups = saved_views(session.groups or ()) if saved else self._views
        known = {group.group.id for group in groups}
        last = self._last
        gone = last is not None and last.group.id == self._id and self._id not in known
        offered = (*groups, last) if gone and last is not None else groups
        rows = listed(offered, self._words, self._order, self._id if gone else None)
        chosen = chosen_of(rows, self._id)
        if chosen is not None:
            self._id, self._last = chosen.group.id, chosen
        partitions = partitions_of(chosen, self._partition_order) if chosen else ()
        age = self._age
        followed = self._followed
        newest = followed.newest if followed else None
        return GroupsView(
            groups=groups,
            rows=rows,
            why=self._why(session),
            chosen=chosen,
            gone=gone and chosen is last,
            inside=self._inside and chosen is not None,
            partitions=partitions,
            happened=tuple(
                one
                for one in reversed((*self._before, *self._happened))
                if chosen is not None and one.group == chosen.group.id
            ),
            partition=at_partition(partitions, self._tp),
            age=age_words(age.age(session.now)) if age else "",
            stale=age.stale(session.now) if age else False,
            trouble=self._error.title if self._error else _trouble(newest),
            over_seconds=followed.over_seconds if followed else None,
            words=self._words,
            typing=self.typing,
            order=self._order,
        )

    def _why(self, session: Session) -> tuple[str, ...]:
        if self._error is not None:
            return (self._error.title, self._error.next or "")
        if session.state is None or (session.address is not None and self._followed is None):
            return (f"asking {session.cluster_name} …",)
        if session.address is None:
            if session.groups is None:
                return ("This document knows nothing of consumer groups.",)
            return ("There was no consumer group when this was saved.",)
        return (
            "There is no consumer group.",
            "Those that you may not describe are not told of. What is assigned by hand, without "
            "group.id or without commits, is no group.",
        )

    def show_body(self, session: Session) -> None:
        if self._followed is None and self._error is None:
            self._look()
        page = self.query_one("#groups-page", Page)
        lines = groups_lines(self._view(session), page.size.width, page.size.height)
        page.show(lines, self.palette, self.glyphs)

    def footer_words(self) -> Mapping[str, str]:
        order = self._partition_order if self._inside else self._order
        return {
            "enter": "all groups" if self._inside else "partitions" if self._id else "",
            "on_map": "on the map" if self._id else "",
            "sort": f"sort: {order.value}",
            "filter": "" if self._inside else "filter",
        }

    # -- moving about ----------------------------------------------------------------------------

    def step(self, rows: int) -> None:
        view = self._view(self.session)
        if view.inside and view.partitions:
            at = min(max(view.partition + rows, 0), len(view.partitions) - 1)
            self._tp = view.partitions[at].tp
        elif view.rows:
            self._choose(view.rows[min(max(view.cursor + rows, 0), len(view.rows) - 1)].group.id)
        self.show(self.session)

    def _choose(self, id: str) -> None:
        if id != self._id:
            self._id, self._tp = id, None

    def action_enter(self) -> None:
        if self._id is not None:
            self._inside = not self._inside
            self.show(self.session)

    def action_on_map(self) -> None:
        group = self._view(self.session).chosen
        if group is None or not group.partitions:
            self.say("It reads nothing that the map could show.")
            return
        partitions = frozenset(p.tp for p in group.partitions)
        self.trimtab.session.lit = Lit(group.group.id, partitions)
        self.trimtab.session.then = None
        self.trimtab.action_show_screen("map")

    def action_back(self) -> None:
        if self._inside:
            self._inside = False
        else:
            self._words = ""
        self.show(self.session)

    def action_sort(self) -> None:
        if self._inside:
            self._partition_order = _other(self._partition_order)
        else:
            self._order = _other(self._order)
        self.show(self.session)

    @property
    def words(self) -> str:
        return self._words

    @property
    def can_filter(self) -> bool:
        return not self._inside and bool(self._views or self.session.groups)

    def filter_by(self, words: str) -> None:
        self._words = words
        self.show(self.session)

    def on_page_hit(self, message: Page.Hit) -> None:
        match message.hit:
            case GroupHit(id):
                self._choose(id)
                if message.twice:
                    self._inside = True
            case PartitionHit(tp):
                self._inside, self._tp = True, tp
        self.show(self.session)

    def on_page_turned(self, message: Page.Turned) -> None:
        self.step(message.steps)

    def copy_text(self) -> str | None:
        """Return the partition under the cursor, or the id of the chosen group."""
        return str(self._tp) if self._inside and self._tp is not None else self._id


def _other(order: Order) -> Order:
    return Order.NAME if order is Order.LAG else Order.LAG


def _trouble(look: Look | None) -> str:
    """Return what is not known of the groups that a look has found."""
    if look is not None and look.lost:
        return f"A broker does not list its groups, which are missing here: {look.lost[0]}"
    if look is not None and look.ends_fault:
        return f"The ends of logs are not known, and no lag: {look.ends_fault}"
    return ""
