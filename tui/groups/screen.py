"""The Groups: who reads what, how far behind, and whether that grows.

While it is open the groups are looked at, as often as the cluster likes it; else nobody does.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.cluster.metadata import TopicPartition
from core.text.terminal import printable
from core.watch.groups.lag import GroupView, build_saved_views
from tui.actions.action import GROUPS
from tui.actions.table import bindings_of
from tui.drawing.page import Page
from tui.drawing.spans import Lines
from tui.groups.detail import PartitionHit
from tui.groups.page import GroupHit, groups_lines
from tui.groups.poller import GroupsPoller
from tui.groups.view import GroupsView, Order, listed
from tui.screen.list_screen import CursorKeys, Filtering, PageScreen
from tui.session import Highlight, Session, age_words


class GroupsScreen(CursorKeys, Filtering, PageScreen):
    """All groups, and what the chosen one reads; or only that."""

    PLACE = GROUPS
    BINDINGS = bindings_of(GROUPS)
    words = ""

    def __init__(self) -> None:
        super().__init__()
        self._poller = GroupsPoller(self)
        self._order = Order.LAG
        self._partition_order = Order.NAME
        self._chosen_id: str | None = None
        """The chosen group; None is the first one."""
        self._last: GroupView | None = None
        """The chosen group as it was seen last, should it vanish."""
        self._tp: TopicPartition | None = None
        self._inside = False

    def on_screen_resume(self) -> None:
        self._poller.start()  # Textual calls the handler that draws, too

    def on_screen_suspend(self) -> None:
        self._poller.stop()

    def refetch(self) -> None:
        self._poller.look()

    def _view(self, session: Session) -> GroupsView:
        saved = session.connection is None and session.address is None
        groups = build_saved_views(session.groups or ()) if saved else self._poller.views
        known = {group.group.id for group in groups}
        last = self._last
        chosen_id = self._chosen_id
        gone = last is not None and last.group.id == chosen_id and chosen_id not in known
        offered = (*groups, last) if gone and last is not None else groups
        rows = listed(offered, self.words, self._order, chosen_id if gone else None)
        chosen = next((g for g in rows if g.group.id == chosen_id), rows[0] if rows else None)
        if chosen is not None:
            self._chosen_id, self._last = chosen.group.id, chosen
        partitions = list(chosen.partitions) if chosen else []
        if self._partition_order is Order.LAG:
            partitions.sort(key=lambda p: -(-1 if p.lag is None else p.lag))
        age, error, followed = self._poller.age, self._poller.error, self._poller.followed
        newest = followed.newest if followed else None
        return GroupsView(
            groups=groups,
            rows=rows,
            why=self._why(session),
            chosen=chosen,
            gone=gone and chosen is last,
            inside=self._inside and chosen is not None,
            partitions=tuple(partitions),
            happened=tuple(
                rebalance
                for rebalance in reversed(self._poller.happened)
                if chosen is not None and rebalance.group == chosen.group.id
            ),
            partition=next((n for n, p in enumerate(partitions) if p.tp == self._tp), 0),
            age=age_words(age.age(session.now)) if age else "",
            stale=age.stale(session.now) if age else False,
            troubles=(error.title,) if error else newest.troubles if newest else (),
            over_seconds=followed.over_seconds if followed else None,
            words=self.words,
            typing=self.typing,
            order=self._order,
        )

    def _why(self, session: Session) -> tuple[str, ...]:
        if (error := self._poller.error) is not None:
            return (error.title, error.next or "")
        unasked = session.address is not None and self._poller.followed is None
        if session.state is None or unasked:
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

    def lines(self, session: Session, width: int, height: int) -> Lines:
        if self._poller.followed is None and self._poller.error is None:
            self._poller.look()
        return groups_lines(self._view(session), width, height)

    def footer_words(self) -> Mapping[str, str]:
        order = self._partition_order if self._inside else self._order
        chosen = self._view(self.session).chosen is not None
        return {
            "enter": "all groups" if self._inside else "partitions" if chosen else "",
            "on_map": "on the map" if chosen else "",
            "sort": f"sort: {order.value}",
            "filter": "" if self._inside else "filter",
        }

    def step(self, rows: int) -> None:
        view = self._view(self.session)
        if view.inside and view.partitions:
            at = min(max(view.partition + rows, 0), len(view.partitions) - 1)
            self._tp = view.partitions[at].tp
        elif view.rows:
            self._choose(view.rows[min(max(view.cursor + rows, 0), len(view.rows) - 1)].group.id)
        self.show(self.session)

    def _choose(self, id: str) -> None:
        if id != self._chosen_id:
            self._chosen_id, self._tp = id, None

    def action_enter(self) -> None:
        if self._view(self.session).chosen is not None:
            self._inside = not self._inside
            self.show(self.session)

    def action_on_map(self) -> None:
        group = self._view(self.session).chosen
        if group is None or not group.partitions:
            self.say("It reads nothing that the map could show.")
            return
        partitions = frozenset(p.tp for p in group.partitions)
        self.dashboard.session.highlight = Highlight(group.group.id, partitions)
        self.dashboard.session.past_moment = None
        self.dashboard.action_show_screen("map")

    def action_back(self) -> None:
        if self._inside:
            self._inside = False
        else:
            self.words = ""
        self.show(self.session)

    def action_sort(self) -> None:
        if self._inside:
            self._partition_order = self._partition_order.next
        else:
            self._order = self._order.next
        self.show(self.session)

    @property
    def can_filter(self) -> bool:
        return not self._inside and bool(self._poller.views or self.session.groups)

    def filter_by(self, words: str) -> None:
        self.words = words
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

    def copy_text(self) -> str | None:
        """Return the partition under the cursor, or the id of the chosen group, on one line."""
        if self._inside and self._tp is not None:
            return str(self._tp)
        return None if self._chosen_id is None else printable(self._chosen_id)
