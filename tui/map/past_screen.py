"""The map of the past: the cluster as it was, under a banner, with nothing that edits it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from core.load.load import Load
from core.units import format_duration
from tui.actions.action import MAP
from tui.actions.table import actions_of, keys_of
from tui.drawing.canvas import Canvas, Row
from tui.screen.base import DashboardScreen
from tui.session import PastMoment, PlanHistory, Session
from tui.theming import Glyphs, Palette
from tui.timeline.time_travel import TimeTravel


def banner_row(session: Session, palette: Palette, glyphs: Glyphs, width: int) -> Row:
    """Return the banner; what does not fit is left out from the right."""
    row = Row(width, palette.style("text", "raised"))
    then, state = session.past_moment, session.state
    if then is None or state is None:
        return row
    at = then.at.astimezone(UTC)
    ago = max((state.fetched_at - then.at).total_seconds(), 0)
    x = row.put(0, f" AS IT WAS {at:%H:%M:%S}Z ", palette.style("on_strong", "look", bold=True))
    parts = [f"{at:%-d %b}, {format_duration(ago)} ago", "edits off"]
    if then.load is None or then.load.as_of is None:
        parts.append("load and sizes unknown")
    else:  # by the end of its window; sizes were never kept
        parts += [f"load until {then.load.as_of.astimezone(UTC):%H:%M}Z", "sizes unknown"]
    for part in parts:
        text = f"{' ' if part is parts[0] else f' {glyphs.dot} '}{part}"
        if x + len(text) <= width:
            x = row.put(x, text, palette.style("text", "raised"))
    last_event = session.recorded.described_at(then.at) if session.recorded else ""
    room = width - x - 4
    if last_event and room >= 12:
        if len(last_event) > room:
            last_event = last_event[: room - 1] + "…"
        row.put(x + 3, last_event, palette.style("bright", "raised", bold=True))
    return row


class PastBanner(Canvas):
    """The banner; not displayed while the map shows what is."""

    DEFAULT_CSS = "PastBanner { height: 1; display: none; }"

    def show(self, session: Session, palette: Palette, glyphs: Glyphs, width: int) -> None:
        self.display = session.past_moment is not None
        if self.display:
            self.put_rows([banner_row(session, palette, glyphs, width)])


EDITS = frozenset(("grab", "take_suggestion", "mark", "prefer", "undo", "redo", "export", "apply"))
READ_ONLY = "The past cannot be edited: 0 goes back to now."
OF_THEN = frozenset(("earlier", "later", "ten_earlier", "ten_later", "now"))


class PastMap:
    """The moment of the past that the map shows, if it does, and the session of that moment."""

    def __init__(self, screen: DashboardScreen) -> None:
        self._screen = screen
        self._time_travel = TimeTravel(screen, lambda: screen.dashboard.draw())
        self._session_then: tuple[PastMoment, Session] | None = None

    @property
    def moment(self) -> PastMoment | None:
        return self._screen.dashboard.session.past_moment

    @property
    def session(self) -> Session:
        """Return the session; in the past one of that moment, with nothing planned or known."""
        now, then = self._screen.dashboard.session, self.moment
        if then is None:
            self._session_then = None
            return now
        if self._session_then is None or self._session_then[0] is not then:
            self._session_then = (then, past_session(now, then))
        session = self._session_then[1]
        session.now, session.has_new_trouble = now.now, now.has_new_trouble
        return session

    def leave(self) -> None:
        """Show the cluster as it is."""
        self.give_up()
        self._screen.dashboard.session.past_moment = None
        self._screen.dashboard.draw()

    def give_up(self) -> None:
        """Wait no longer for a moment that was asked for."""
        self._time_travel.give_up()

    def step(self, steps: int) -> None:
        """Go to so many happenings later, or earlier."""
        then, recorded = self.moment, self._screen.dashboard.session.recorded
        if then is not None and recorded is not None:
            pending_at = self._time_travel.pending_at or then.at
            self._time_travel.go_to(recorded.moment_after(pending_at, steps))

    def refuses(self, key: str) -> bool:
        """Return whether a key would edit the past; it is said."""
        if self.moment is None:
            return False
        user_keys = self._screen.dashboard.user_keys
        edits = (action for action in actions_of(MAP) if action.id in EDITS)
        if not any(key in keys_of(action, user_keys) for action in edits):
            return False
        self._screen.say(READ_ONLY, "look")
        return True


def past_session(now: Session, then: PastMoment) -> Session:
    return replace(
        now,
        state=then.state,
        load=then.load or Load.unknown(then.state),
        snapshot=None,
        metadata_age=None,
        load_age=None,
        load_enabled=False,
        history=PlanHistory(),
        groups=None,
        run=None,
        external_moves=(),
        problem=None,
        writable=False,
    )
