"""What changed since this was fine: two moments of the timeline compared, in a worker."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime

from textual.message import Message

from core.errors import TrimtabError
from tui.timeline.history import Comparison, TimelineFilter
from tui.timeline.reader import compare
from tui.timeline.time_travel import TimeTravel


class ComparisonKeys(TimeTravel):
    """The part of the Timeline that compares; `compared` is None while it tells what happened."""

    class Differ(Message):
        """A worker has compared two moments."""

        def __init__(
            self, asked: int, compared: Comparison | None, error: TrimtabError | None = None
        ) -> None:
            super().__init__()
            self.asked, self.compared, self.error = asked, compared, error

    def __init__(self) -> None:
        super().__init__()
        self.compared: Comparison | None = None
        self.fine_at: datetime | None = None
        """The moment that was marked as fine; None takes the cursor's."""
        self._asked = 0
        """Counts questions: an answer to an older one, or to one taken back, comes too late."""
        self._open: tuple[datetime, datetime | None] | None = None
        """The two moments that a worker compares, None for now; None while there is no such one."""
        self._again = False
        """Whether it is to be asked once more then."""

    @property
    @abstractmethod
    def moment(self) -> datetime | None:
        """Return the moment under the cursor; None at the newest."""

    @abstractmethod
    def current_filter(self) -> TimelineFilter:
        """Return which differences are asked for."""

    @abstractmethod
    def turned(self) -> None:
        """Show what happened instead of what differs, or the other way round."""

    def action_mark(self) -> None:
        """Mark the moment under the cursor as fine, or unmark it."""
        moment = self.moment
        if moment is None or self.compared is not None:
            self.say("Put the cursor where it was still fine: [ goes back.")
            return
        self.fine_at = None if self.fine_at == moment else moment
        self.turned()
        self.say("Fine then: b compares it with the cursor." if self.fine_at else "Unmarked.")

    @property
    def is_comparing(self) -> bool:
        """Return whether two moments are compared, or asked for."""
        return self.compared is not None or self._open is not None

    def action_changed(self) -> None:
        if self.is_comparing:
            self.stop_comparing()
            return
        since, until = self.fine_at or self.moment, self.moment
        if since is None:
            self.say("Put the cursor where it was still fine: [ goes back.")
            return
        self._compare(since, None if until == since else until)

    def stop_comparing(self) -> None:
        self._asked += 1
        self._open, self._again = None, False
        self.compared = None
        self.turned()

    def recompare(self) -> None:
        """Compare anew: something else is asked for."""
        if (moments := self._moments()) is not None:
            self._compare(*moments)

    def compare_with_newer(self) -> None:
        """Compare with now anew, as it is later: once the answer is there that is waited for."""
        moments = self._moments()
        if moments is None or moments[1] is not None:
            return
        if self._open is not None:
            self._again = True
        else:
            self._compare(*moments)

    def _moments(self) -> tuple[datetime, datetime | None] | None:
        if self._open is not None or self.compared is None:
            return self._open
        return self.compared.since, None if self.compared.now else self.compared.until

    def _compare(self, since: datetime, until: datetime | None) -> None:
        state = self.session.state
        if state is None:
            return
        self._asked += 1
        self._open, self._again = (since, until), False
        cluster_id, asked, nth = state.cluster_id, self.current_filter(), self._asked

        def work() -> None:
            try:
                self.post_message(self.Differ(nth, compare(cluster_id, since, until, asked)))
            except TrimtabError as error:
                self.post_message(self.Differ(nth, None, error))

        self.run_worker(work, thread=True, exclusive=True, group="compare")

    def on_comparison_keys_differ(self, message: Differ) -> None:
        if message.asked != self._asked:
            return
        again = self._open if self._again else None
        self._open, self._again = None, False
        if message.error is not None:
            self.say_error(message.error)
        elif message.compared is None:
            self.say("The cluster had not been seen yet then.", "look")
        else:
            self.compared = message.compared
            self.turned()
        if again is not None:
            self._compare(*again)
