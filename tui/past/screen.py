"""A screen that can show the past: under a banner, with nothing that edits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.widget import Widget

from core.load.load import Load
from tui.actions.table import actions_of, keys_of
from tui.past.banner import PastBanner
from tui.past.travel import TimeTravel
from tui.screen.base import DashboardScreen
from tui.session import PastMoment, PlanHistory, Session

if TYPE_CHECKING:
    from core.load.snapshot.kept import KeptSnapshot

READ_ONLY = "The past cannot be edited: 0 goes back to now."
NO_PAST = "A saved document has no past."
DAY, TEN = 24, 10
ONLY_THEN = frozenset(("later", "ten_later", "now"))


class PastScreen(DashboardScreen):
    """Shows the session of the moment that the user went to, or what is."""

    EDITS: ClassVar[frozenset[str]] = frozenset()
    """Actions of this screen that are refused in the past."""

    def __init__(self) -> None:
        super().__init__()
        self._time_travel = TimeTravel(self, lambda: self.dashboard.draw())
        self._session_then: tuple[PastMoment, Session] | None = None

    def compose_body(self) -> Iterable[Widget]:
        yield PastBanner()
        yield from super().compose_body()

    @property
    def then(self) -> PastMoment | None:
        """Return the moment that is shown; None for now."""
        return self.dashboard.session.past_moment

    @property
    def session(self) -> Session:
        """Return the session; in the past one of that moment, with nothing planned or known."""
        now, then = self.dashboard.session, self.then
        if then is None:
            self._session_then = None
            return now
        if self._session_then is None or self._session_then[0] is not then:
            self._session_then = (then, past_session(now, then))
        session = self._session_then[1]
        session.now, session.has_new_trouble = now.now, now.has_new_trouble
        return session

    def show(self, session: Session) -> None:
        for banner in self.query(PastBanner):
            now, width = self.dashboard.session, self.size.width
            if banner.show(now, self.PLACE, self.palette, self.glyphs, width):
                self.call_after_refresh(self.dashboard.draw)  # there is another height to fill
        super().show(self.session)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ONLY_THEN:
            return self.then is not None or self._time_travel.under_way
        if action in self.EDITS and self.then is not None:
            return False
        return super().check_action(action, parameters)

    def past_words(self) -> Mapping[str, str]:
        """Return what the footer calls the steps: what they are depends on how one came here."""
        then = self.then
        by_event = then is not None and not then.by_hours
        return {
            "now": "back to now" if then else "",
            "earlier": "event" if by_event else "hour",
            "ten_earlier": "ten" if by_event else "day",
        }

    def refuses(self, key: str) -> bool:
        """Return whether a key would edit the past; it is said."""
        if self.then is None:
            return False
        user_keys = self.dashboard.user_keys
        edits = (action for action in actions_of(self.PLACE) if action.id in self.EDITS)
        if not any(key in keys_of(action, user_keys) for action in edits):
            return False
        self.say(READ_ONLY, "look")
        return True

    def on_screen_suspend(self) -> None:
        """Wait no longer for a moment that was asked for: another screen is shown."""
        self._time_travel.give_up()

    # -- going there and back --------------------------------------------------------------------

    def action_now(self) -> None:
        self._time_travel.give_up()
        self.dashboard.session.past_moment = None
        self.dashboard.draw()

    def action_earlier(self) -> None:
        self._step(-1)

    def action_later(self) -> None:
        self._step(1)

    def action_ten_earlier(self) -> None:
        self._step(-1, far=True)

    def action_ten_later(self) -> None:
        self._step(1, far=True)

    def _step(self, steps: int, *, far: bool = False) -> None:
        """Go to another hour, or day; from what happened to what happened before or after."""
        session, then = self.dashboard.session, self.then
        if session.address is None:
            self.say(NO_PAST)
        elif then is None or then.by_hours:
            self._time_travel.step_hours(steps * (DAY if far else 1))
        elif session.recorded is not None:
            since = self._time_travel.pending_at or then.at
            steps *= TEN if far else 1
            self._time_travel.go_to(session.recorded.moment_after(since, steps))

    def action_hours(self) -> None:
        """List the kept hours, to go to one of them."""
        if self.dashboard.session.address is None:
            self.say(NO_PAST)
            return
        from tui.past.hours_dialog import HoursDialog

        def chosen(hour: KeptSnapshot | None) -> None:
            if hour is not None:
                self._time_travel.go_to_hour(hour)

        self.app.push_screen(HoursDialog(), chosen)


def past_session(now: Session, then: PastMoment) -> Session:
    return replace(
        now,
        state=then.state,
        load=then.load or Load.unknown(then.state),
        snapshot=then.snapshot,
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
