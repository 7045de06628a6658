"""Takes the map to a moment of the past: what the Timeline and the map of the past share."""

from __future__ import annotations

from datetime import datetime

from textual.message import Message

from core.errors import TrimtabError
from tui.past import Then
from tui.past_reading import read_state
from tui.screens.base import DashboardScreen


class TimeTravel(DashboardScreen):
    """A screen from which a moment of the past can be gone to."""

    class Arrived(Message):
        """A worker has read the cluster as it was; None before it was first seen."""

        def __init__(self, then: Then | None, error: TrimtabError | None = None) -> None:
            super().__init__()
            self.then, self.error = then, error

    def travel(self, moment: datetime) -> None:
        """Have the map show a moment; the answer comes as `Arrived`."""
        now = self.trimtab.session.state
        if now is None:
            return
        cluster_id = now.cluster_id

        def work() -> None:
            try:
                state = read_state(cluster_id, moment)
            except TrimtabError as error:
                self.post_message(self.Arrived(None, error))
            else:
                self.post_message(self.Arrived(Then(moment, state) if state else None))

        self.run_worker(work, thread=True, exclusive=True, group="travel")

    def on_time_travel_arrived(self, message: Arrived) -> None:
        if message.error is not None:
            self.say_trouble(message.error)
        elif message.then is None:
            self.say("The cluster had not been seen yet then.", "look")
        else:
            self.trimtab.session.then = message.then
            self.arrived()

    def arrived(self) -> None:
        """Show the moment that was gone to."""
        self.trimtab.draw()
