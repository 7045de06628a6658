"""The map of the past: the cluster as it was, under a banner, with nothing that edits it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from textual import events

from core.load.load import Load
from core.units import format_duration
from tui.actions.table import MAP, actions_of, keys_of
from tui.drawing.canvas import Canvas, Row
from tui.session import PlanHistory, Session
from tui.theming import Glyphs, Palette
from tui.timeline.time_travel import TimeTravel

if TYPE_CHECKING:
    from tui.session import PastMoment


def banner_row(session: Session, palette: Palette, glyphs: Glyphs, width: int) -> Row:
    """Return the banner; what does not fit is left out from the right."""
    row = Row(width, palette.style("text", "raised"))
    then, state = session.past_moment, session.state
    if then is None or state is None:
        return row
    at = then.at.astimezone(UTC)
    ago = max((state.fetched_at - then.at).total_seconds(), 0)
    x = row.put(0, f" AS IT WAS {at:%H:%M:%S}Z ", palette.style("on_strong", "look", bold=True))
    parts = [
        f"{at:%-d %b}, {format_duration(ago)} ago",
        "edits off",
        *_known(then),
    ]
    for part in parts:
        text = f"{' ' if part is parts[0] else f' {glyphs.dot} '}{part}"
        if x + len(text) <= width:
            x = row.put(x, text, palette.style("text", "raised"))
    told = session.recorded.described_at(then.at) if session.recorded else ""
    room = width - x - 4
    if told and room >= 12:
        told = told if len(told) <= room else told[: room - 1] + glyphs.ellipsis
        told = told.replace("→", glyphs.arrow)
        row.put(x + 3, told, palette.style("bright", "raised", bold=True))
    return row


def _known(then: PastMoment) -> tuple[str, ...]:
    """Say which load is shown, by the end of its window; sizes were never kept."""
    if then.load is None or then.load.as_of is None:
        return ("load and sizes unknown",)
    return f"load until {then.load.as_of.astimezone(UTC):%H:%M}Z", "sizes unknown"


class PastBanner(Canvas):
    """The banner; not displayed while the map shows what is."""

    DEFAULT_CSS = "PastBanner { height: 1; display: none; }"

    def show(self, session: Session, palette: Palette, glyphs: Glyphs, width: int) -> None:
        if session.past_moment is not None:
            self.put_rows([banner_row(session, palette, glyphs, width)])


EDITS = frozenset(("grab", "take_suggestion", "mark", "prefer", "undo", "redo", "export", "apply"))
OF_THEN = frozenset(("earlier", "later", "ten_earlier", "ten_later", "now"))


class PastMap(TimeTravel):
    """The part of the map that knows of other times; its session is of the moment shown."""

    def __init__(self) -> None:
        super().__init__()
        self._session_then: tuple[PastMoment, Session] | None = None

    @property
    def past_moment(self) -> PastMoment | None:
        return self.dashboard.session.past_moment

    @property
    def session(self) -> Session:
        """Return the session; in the past one of that moment, with nothing planned or known."""
        now, then = self.dashboard.session, self.past_moment
        if then is None:
            self._session_then = None
            return now
        if self._session_then is None or self._session_then[0] is not then:
            self._session_then = (then, past_session(now, then))
        session = self._session_then[1]
        session.now, session.has_new_trouble = now.now, now.has_new_trouble
        return session

    def show(self, session: Session) -> None:
        banner = self.query(PastBanner)
        if banner:
            banner.first().display = self.past_moment is not None
            banner.first().show(self.dashboard.session, self.palette, self.glyphs, self.size.width)
        super().show(self.session)

    def action_now(self) -> None:
        self.asked_at = None
        self.dashboard.session.past_moment = None
        self.dashboard.draw()

    def _step_past(self, steps: int) -> None:
        then, past = self.past_moment, self.dashboard.session.recorded
        if then is not None and past is not None:
            self.travel(past.moment_after(self.asked_at or then.at, steps))

    def action_earlier(self) -> None:
        self._step_past(-1)

    def action_later(self) -> None:
        self._step_past(1)

    def action_ten_earlier(self) -> None:
        self._step_past(-10)

    def action_ten_later(self) -> None:
        self._step_past(10)

    def refuse_edit(self, event: events.Key) -> bool:
        """Return whether a key would edit the past; it is said, and taken."""
        if self.past_moment is None:
            return False
        keys = {
            key
            for action in actions_of(MAP)
            if action.id in EDITS
            for key in keys_of(action, self.dashboard.user_keys)
        }
        if event.key not in keys:
            return False
        event.stop()
        event.prevent_default()
        self.say("The past cannot be edited: 0 goes back to now.", "look")
        return True


def past_session(now: Session, then: PastMoment) -> Session:
    return replace(
        now,
        state=then.state,
        load=then.load or Load.unknown(then.state),
        snapshot=None,
        metadata_age=None,
        load_age=None,
        load_wanted=False,
        history=PlanHistory(),
        groups=None,
        run=None,
        external_moves=(),
        problem=None,
        writable=False,
    )
