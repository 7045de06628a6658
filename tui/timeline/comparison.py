"""What changed since this was fine: two moments of the timeline compared, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from core.errors import TrimtabError
from tui.screen.base import DashboardScreen
from tui.timeline.history import Comparison, TimelineFilter
from tui.timeline.reader import compare

NOWHERE = "Put the cursor where it was still fine: [ goes back."


class TimelineComparison:
    """Two moments compared, by the current filter; `changed` is called with another list."""

    def __init__(
        self,
        screen: DashboardScreen,
        current_filter: Callable[[], TimelineFilter],
        changed: Callable[[], None],
    ) -> None:
        self._screen, self._current_filter, self._changed = screen, current_filter, changed
        self.shown: Comparison | None = None
        """None while what happened is listed."""
        self.fine_at: datetime | None = None
        """The moment that was marked as fine; None takes the cursor's."""
        self._number = 0
        """Counts questions: an answer to an older one, or to one taken back, comes too late."""
        self._open: tuple[datetime, datetime | None] | None = None
        """The two moments that a thread compares, None for now; None while there is no such one."""
        self._repeat = False
        """Whether it is to be asked once more then."""

    def mark(self, moment: datetime | None) -> None:
        """Mark the moment under the cursor as fine, or unmark it."""
        if moment is None or self.shown is not None:
            self._screen.say(NOWHERE)
            return
        self.fine_at = None if self.fine_at == moment else moment
        self._changed()
        words = "Fine then: b compares it with the cursor." if self.fine_at else "Unmarked."
        self._screen.say(words)

    @property
    def is_open(self) -> bool:
        """Return whether two moments are compared, or asked for."""
        return self.shown is not None or self._open is not None

    def toggle(self, moment: datetime | None) -> None:
        """Compare the moment marked as fine with the cursor's, or that with now; or stop."""
        if self.is_open:
            self.stop()
        elif (since := self.fine_at or moment) is None:
            self._screen.say(NOWHERE)
        else:
            self._compare(since, None if moment == since else moment)

    def stop(self) -> None:
        self._number += 1
        self._open, self._repeat = None, False
        self.shown = None
        self._changed()

    def refresh(self) -> None:
        """Compare anew: something else is asked for."""
        if (moments := self._moments()) is not None:
            self._compare(*moments)

    def refresh_now(self) -> None:
        """Compare with now anew, as it is later: once the answer is there that is waited for."""
        moments = self._moments()
        if moments is None or moments[1] is not None:
            return
        if self._open is not None:
            self._repeat = True
        else:
            self._compare(*moments)

    def _moments(self) -> tuple[datetime, datetime | None] | None:
        if self._open is not None or self.shown is None:
            return self._open
        return self.shown.since, None if self.shown.now else self.shown.until

    def _compare(self, since: datetime, until: datetime | None) -> None:
        state = self._screen.session.state
        if state is None:
            return
        self._number += 1
        self._open, self._repeat = (since, until), False
        self._screen.run_in_thread(
            "compare",
            partial(compare, state.cluster_id, since, until, self._current_filter()),
            partial(self._take, self._number),
            partial(self._take, self._number),
        )

    def _take(self, number: int, answer: Comparison | TrimtabError | None) -> None:
        if number != self._number:
            return
        repeated = self._open if self._repeat else None
        self._open, self._repeat = None, False
        if isinstance(answer, TrimtabError):
            self._screen.say_error(answer)
        elif answer is None:
            self._screen.say("The cluster had not been seen yet then.", "look")
        else:
            self.shown = answer
            self._changed()
        if repeated is not None:
            self._compare(*repeated)
