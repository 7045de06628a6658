"""The Timeline: what happened in the cluster and since when, from the file that is recorded.

It looks at the file every second while it is open, in a worker; it never asks the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from textual.timer import Timer

from core.errors import TrimtabError
from core.units import format_duration
from core.watch.timeline.text import to_markdown
from tui.actions.action import TIMELINE
from tui.actions.table import actions_of, bindings_of
from tui.dialogs.export import export_timeline
from tui.drawing.page import Page
from tui.drawing.spans import Lines, RowHit
from tui.memoize import memoize_last
from tui.past.travel import TimeTravel
from tui.screen.list_screen import EDGE, CursorKeys, Filtering, PageScreen
from tui.session import Session
from tui.timeline.comparison import TimelineComparison
from tui.timeline.history import (
    RecordedTimeline,
    TimelineFilter,
    TimelineRow,
    TimelineRowKey,
    key_of,
    row_at,
    rows_of,
)
from tui.timeline.lane_rendering import HORIZONS, BrokerHit, LaneHit, usual_horizon
from tui.timeline.page import TimelineView, dated, timeline_lines, why_nothing
from tui.timeline.reader import read_timeline

LOOK_SECONDS = 1.0


class TimelineScreen(CursorKeys, Filtering, PageScreen):
    """What happened, folded, the newest at the bottom; a lane for each broker above it."""

    PLACE = TIMELINE
    BINDINGS = bindings_of(TIMELINE)
    WHEEL = 3

    def __init__(self) -> None:
        super().__init__()
        self.timeline_filter = TimelineFilter()
        self.comparison = TimelineComparison(self, lambda: self.timeline_filter, self._turned)
        self._time_travel = TimeTravel(self, lambda: self.dashboard.action_show_screen("map"))
        self._past: RecordedTimeline | None = None
        self._looked = False
        self._reading = False
        self._error: TrimtabError | None = None
        self._rows: tuple[TimelineRow, ...] = ()
        self._unfolded: frozenset[TimelineRowKey] = frozenset()
        self._key: TimelineRowKey | None = None
        """The row under the cursor; None follows the newest."""
        self._row_at = memoize_last(row_at)
        """Where the row under the cursor was found last: there may be very many."""
        self._key_before: TimelineRowKey | None = None
        self._was_compared = False
        """Whether a comparison was listed when the rows were made last."""
        self._horizon: float | None = None
        self._horizon_chosen = False
        self._timer: Timer | None = None

    # -- reading ---------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self._timer = self.set_interval(LOOK_SECONDS, self._follow)

    def on_screen_suspend(self) -> None:
        self._time_travel.give_up()
        if self._timer is not None:
            self._timer.pause()

    def on_screen_resume(self) -> None:
        """Catch up; Textual calls the handler that draws, too."""
        self._follow_past_moment()
        if self._timer is not None:
            self._timer.resume()
        self._look()

    def _follow(self) -> None:
        if not self.session.paused:
            self._look()

    def _look(self) -> None:
        """Look at the file, unless a thread does already."""
        state = self.session.state
        if state is None or self._reading:
            return
        self._reading = True
        known = self._past
        self.run_in_thread(
            "timeline",
            partial(read_timeline, state.cluster_id, self.timeline_filter, known),
            self._take,
            lambda error: self._take(known, error),
            exclusive=False,
        )

    def _take(self, past: RecordedTimeline | None, error: TrimtabError | None = None) -> None:
        self._reading = False
        if error is not None and str(error) != str(self._error):
            self.say_error(error)
        same = self._looked and past is self._past
        self._error, self._past, self._looked = error, past, True
        if past is not None and past.timeline_filter != self.timeline_filter:
            self._look()  # more was typed meanwhile
        if not same:
            self.comparison.refresh_now()
            self._fold()

    def _fold(self) -> None:
        """Make the rows anew, and draw them."""
        shown = self.comparison.shown or self._past
        self._rows = rows_of(shown.groups, self._unfolded) if shown else ()
        self.session.recorded = self._past
        self.show(self.session)

    # -- drawing ---------------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        return self._row_at(self._rows, self._key)

    @property
    def horizon(self) -> float | None:
        if self._past is not None and not self._horizon_chosen:
            return usual_horizon(self._past)
        return self._horizon

    def lines(self, session: Session, width: int, height: int) -> Lines:
        if not self._looked:
            self._look()
        past = self._past
        if past is not None and past.timeline_filter != self.timeline_filter:
            # What is typed shows before it is found.
            past = replace(past, timeline_filter=self.timeline_filter)
        view = TimelineView(
            past=past,
            why=why_nothing(session, self._error, looked=self._looked),
            rows=self._rows,
            cursor=self.cursor,
            compared=self.comparison.shown,
            fine_at=self.comparison.fine_at,
            following=self._key is None,
            horizon=self.horizon,
            now=self._now(session),
            typing=self.typing,
        )
        return timeline_lines(view, width, height)

    def _now(self, session: Session) -> datetime:
        looked_at = session.state.fetched_at if session.state else datetime.now(UTC)
        return max(looked_at, self._past.span[1]) if self._past else looked_at

    def footer_words(self) -> Mapping[str, str]:
        if self._past is None:
            there = (action.id for action in actions_of(TIMELINE) if action.footer)
            return dict.fromkeys(there, "")
        row = self._rows[self.cursor] if self._rows else None
        many = row is not None and len(row.happening.events) > 1
        folded = row is not None and self._head(row) not in self._unfolded
        seconds = self.horizon
        return {
            "changed": "what happened" if self.comparison.shown else "what changed",
            "enter": ("unfold" if folded else "fold") if many else "",
            "kind": f"kind: {self.timeline_filter.kind or 'all'}",
            "horizon": f"over: {'all' if seconds is None else format_duration(seconds)}",
        }

    # -- moving about ----------------------------------------------------------------------------

    def _to(self, index: int) -> None:
        """Put the cursor on a row; on the last one it follows."""
        if not self._rows:
            return
        index = min(max(index, 0), len(self._rows) - 1)
        self._key = None if index == len(self._rows) - 1 else self._rows[index].key
        self.show(self.session)

    def step(self, rows: int) -> None:
        self._to(self.cursor + rows)

    def _step_happenings(self, steps: int) -> None:
        """Go to what happened so many happenings before or after, whatever is unfolded."""
        heads = [n for n, row in enumerate(self._rows) if row.event is None]
        if not heads:
            return
        at = self.cursor
        inside = self._rows[at].event is not None
        here = max(i for i, n in enumerate(heads) if n <= at)
        if inside and steps < 0:
            steps += 1
        self._to(heads[min(max(here + steps, 0), len(heads) - 1)])

    def action_earlier(self) -> None:
        self._step_happenings(-1)

    def action_later(self) -> None:
        self._step_happenings(1)

    def action_ten_earlier(self) -> None:
        self._step_happenings(-10)

    def action_ten_later(self) -> None:
        self._step_happenings(10)

    @staticmethod
    def _head(row: TimelineRow) -> TimelineRowKey:
        return replace(row.key, event=None)

    def action_enter(self) -> None:
        row = self._rows[self.cursor] if self._rows else None
        if row is None or len(row.happening.events) < 2:
            return
        head = self._head(row)
        self._key = head
        self._unfolded ^= {head}
        self._fold()

    @property
    def _moment(self) -> datetime | None:
        """Return the moment under the cursor; None at the newest."""
        return self._rows[self.cursor].until if self._rows and self._key is not None else None

    def action_mark(self) -> None:
        self.comparison.mark(self._moment)

    def action_changed(self) -> None:
        self.comparison.toggle(self._moment)

    def _turned(self) -> None:
        """Show the other list; the cursor of what happened is found again afterwards."""
        compared = self.comparison.shown
        if self._was_compared and compared is None:
            self._key = self._key_before
        elif compared is not None and not self._was_compared:
            self._key_before = self._key
            self._key = key_of(compared.groups[0]) if compared.groups else None
        self._was_compared = compared is not None
        self._fold()

    def action_map_then(self) -> None:
        if self.comparison.shown is not None:
            self._time_travel.go_to(self.comparison.shown.since)
        elif self._rows:
            self._time_travel.go_to(self._rows[self.cursor].until)

    def _follow_past_moment(self) -> None:
        """Put the cursor where the past that is shown has gone meanwhile."""
        then = self.session.past_moment
        if then is None or (self._rows and self._rows[self.cursor].until == then.at):
            return
        before = [row for row in self._rows if row.until <= then.at]
        if before:
            self._key = before[-1].key

    def action_horizon(self) -> None:
        at = HORIZONS.index(self.horizon)
        self._horizon, self._horizon_chosen = HORIZONS[(at + 1) % len(HORIZONS)], True
        self.show(self.session)

    def action_back(self) -> None:
        if self.timeline_filter != TimelineFilter():
            self._set_filter(TimelineFilter())
        elif self.comparison.is_open:
            self.comparison.stop()
        elif self._unfolded:
            self._unfolded = frozenset()
            self._key = self._key and replace(self._key, event=None)
            self._fold()
        else:
            self._to(EDGE)

    def on_page_hit(self, message: Page.Hit) -> None:
        match message.hit:
            case RowHit(index):
                self._to(index)
                if message.twice:
                    self.action_enter()
            case LaneHit(at) if self._rows:
                before = [n for n, row in enumerate(self._rows) if row.at <= at]
                self._to(before[-1] if before else 0)
            case BrokerHit(broker):
                words = "" if self.timeline_filter.words == f"b{broker}" else f"b{broker}"
                self._set_filter(replace(self.timeline_filter, words=words))

    @property
    def words(self) -> str:
        return self.timeline_filter.words

    @property
    def can_filter(self) -> bool:
        return self._past is not None

    def filter_by(self, words: str) -> None:
        self._set_filter(replace(self.timeline_filter, words=words))

    def action_kind(self) -> None:
        self._set_filter(replace(self.timeline_filter, kind=self.timeline_filter.next_kind()))

    def _set_filter(self, timeline_filter: TimelineFilter) -> None:
        self.timeline_filter = timeline_filter
        self._look()
        self.comparison.refresh()
        self.show(self.session)

    def copy_text(self) -> str | None:
        """Return what is listed as a Markdown table, unfolded as it is here."""
        if not self._rows or self._past is None:
            return None
        name = self.session.cluster_name
        rows = ((row.at, ("· " if row.event else "") + row.text) for row in self._rows)
        if (compared := self.comparison.shown) is not None:
            return to_markdown(f"What differs in {name} since {dated(compared.since)} UTC", rows)
        since, until = self._past.span
        return to_markdown(f"Timeline of {name}, {dated(since)} to {dated(until)} UTC", rows)

    def action_export(self) -> None:
        text = self.copy_text()
        if text is None:
            self.say("Nothing is listed: nothing to export.")
        else:
            export_timeline(self, text)
