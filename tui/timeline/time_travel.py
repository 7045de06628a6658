"""Takes the map to a moment of the past: what the Timeline and the map of the past share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from core.errors import TrimtabError
from tui.screen.base import DashboardScreen
from tui.session import PastMoment


class TimeTravel:
    """Reads a moment in a thread, and shows it unless its screen was left meanwhile."""

    def __init__(self, screen: DashboardScreen, arrived: Callable[[], None]) -> None:
        self._screen, self._arrived = screen, arrived
        self.pending_at: datetime | None = None
        """The moment that was asked for last, until it is there; None while none is waited for."""

    def go_to(self, moment: datetime) -> None:
        """Have the map show a moment."""
        session = self._screen.dashboard.session
        if session.state is None:
            return
        self.pending_at = moment
        cluster_id, snapshots = session.state.cluster_id, session.snapshots

        def work() -> tuple[PastMoment | None, TrimtabError | None]:
            # Here, and not for the first paint, which needs no timeline.
            from core.load.load_paths import root_of
            from core.load.windows import load_at
            from tui.timeline.reader import read_state

            then: PastMoment | None = None
            try:
                state = read_state(cluster_id, moment)
                if state is not None:
                    then = PastMoment(moment, state)
                    load = load_at(root_of(snapshots), cluster_id, state, moment)
                    then = PastMoment(moment, state, load)
            except TrimtabError as error:  # without its load the moment can be shown all the same
                return then, error
            return then, None

        self._screen.run_in_thread("travel", work, lambda found: self._take(moment, *found))

    def give_up(self) -> None:
        """Nobody waits for a moment any more."""
        self.pending_at = None

    def _take(
        self, pending_at: datetime, then: PastMoment | None, error: TrimtabError | None
    ) -> None:
        screen = self._screen
        if pending_at != self.pending_at or not screen.is_current:
            return  # what replaced a worker does not keep it from answering
        self.pending_at = None
        if error is not None:
            screen.dashboard.session.take_trouble(error)
            screen.say_error(error)
        elif then is None:
            screen.say("The cluster had not been seen yet then.", "look")
        if then is not None:
            screen.dashboard.session.past_moment = then
            self._arrived()
