"""Takes the map to a moment of the past: what the Timeline and the map of the past share."""

from __future__ import annotations

from datetime import datetime

from textual.message import Message

from core.errors import TrimtabError
from core.load.locate import load_at
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
        cluster_id, snapshots = now.cluster_id, self.trimtab.session.snapshots

        def work() -> None:
            then: Then | None = None
            try:
                state = read_state(cluster_id, moment)
                then = Then(moment, state) if state is not None else None
                if state is not None:
                    then = Then(moment, state, load_at(cluster_id, state, moment, snapshots))
            except TrimtabError as error:  # without its load the moment can be shown all the same
                self.post_message(self.Arrived(then, error))
            else:
                self.post_message(self.Arrived(then))

        self.run_worker(work, thread=True, exclusive=True, group="travel")

    def on_time_travel_arrived(self, message: Arrived) -> None:
        if message.error is not None:
            self.trimtab.session.take_trouble(message.error)
            self.say_trouble(message.error)
        elif message.then is None:
            self.say("The cluster had not been seen yet then.", "look")
        if message.then is not None:
            self.trimtab.session.then = message.then
            self.arrived()

    def arrived(self) -> None:
        """Show the moment that was gone to."""
        self.trimtab.draw()
