"""Takes the map to a moment of the past: what the Timeline and the map of the past share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from textual.message import Message

from core.errors import TrimtabError
from tui.screen.base import DashboardScreen

if TYPE_CHECKING:
    from tui.session import PastMoment


class TimeTravel(DashboardScreen):
    """A screen from which a moment of the past can be gone to."""

    class Arrived(Message):
        """A worker has read the cluster as it was; None before it was first seen."""

        def __init__(
            self, asked_at: datetime, then: PastMoment | None, error: TrimtabError | None = None
        ) -> None:
            super().__init__()
            self.asked_at, self.then, self.error = asked_at, then, error

    def __init__(self) -> None:
        super().__init__()
        self.asked_at: datetime | None = None
        """The moment that was asked for last, until it is there; None while none is waited for."""

    def travel(self, moment: datetime) -> None:
        """Have the map show a moment; the answer comes as `Arrived`."""
        now = self.dashboard.session.state
        if now is None:
            return
        self.asked_at = moment
        cluster_id, snapshots = now.cluster_id, self.dashboard.session.snapshots

        def work() -> None:
            # Here, and not for the first paint, which needs no timeline.
            from core.load.load_source import load_at
            from tui.session import PastMoment
            from tui.timeline.reader import read_state

            then: PastMoment | None = None
            try:
                state = read_state(cluster_id, moment)
                then = PastMoment(moment, state) if state is not None else None
                if state is not None:
                    then = PastMoment(moment, state, load_at(cluster_id, state, moment, snapshots))
            except TrimtabError as error:  # without its load the moment can be shown all the same
                self.post_message(self.Arrived(moment, then, error))
            else:
                self.post_message(self.Arrived(moment, then))

        self.run_worker(work, thread=True, exclusive=True, group="travel")

    def on_screen_suspend(self) -> None:
        """Another screen, or a dialog, is shown: nobody waits for a moment any more."""
        self.asked_at = None

    def on_time_travel_arrived(self, message: Arrived) -> None:
        if message.asked_at != self.asked_at or not self.is_current:
            return  # what replaced a worker does not keep it from answering
        self.asked_at = None
        if message.error is not None:
            self.dashboard.session.take_trouble(message.error)
            self.say_error(message.error)
        elif message.then is None:
            self.say("The cluster had not been seen yet then.", "look")
        if message.then is not None:
            self.dashboard.session.past_moment = message.then
            self.arrived()

    def arrived(self) -> None:
        """Show the moment that was gone to."""
        self.dashboard.draw()
