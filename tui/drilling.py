"""Drills from the dashboard: asks what to break, has it done beside, and says what was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import App
from textual.message import Message

from core.errors import TrimtabError
from tui.screens.base import DashboardScreen

if TYPE_CHECKING:
    from core.cluster.drills.drill import Drill, DrillGround, Offer
    from tui.session import Session

DRILL = "drill"
"""The action's id; where there is no ground for it, nothing shows it and its key does nothing."""


class Drilling(App[int]):
    """The part of the dashboard that drills; `session.ground` says whether there is where."""

    session: Session

    class Offered(Message):
        """A worker has looked what can be done now."""

        def __init__(self, ground: DrillGround, offers: tuple[Offer, ...]) -> None:
            super().__init__()
            self.ground, self.offers = ground, offers

    class Drilled(Message):
        """A worker has done it, or could not: then it says why."""

        def __init__(self, done: str | TrimtabError | None) -> None:
            super().__init__()
            self.done = done

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == DRILL:
            return self.session.ground is not None
        return super().check_action(action, parameters)

    def action_drill(self) -> None:
        ground, state, screen = self.session.ground, self.session.state, self.screen
        if ground is None or state is None or not isinstance(screen, DashboardScreen):
            return
        if not self.session.writable:
            screen.say(f"Read-only: {self.session.read_only_because}.", "look")
            return

        def look() -> Message:
            return self.Offered(ground, ground.offers(state))

        self._beside(look)

    def on_drilling_offered(self, message: Offered) -> None:
        if not isinstance(self.screen, DashboardScreen):
            return
        from tui.screens.drill_dialog import DrillDialog

        broker, topic = self.session.pointed_at or (None, None)
        dialog = DrillDialog(message.ground.name, message.offers, broker=broker, topic=topic)

        def answered(drill: Drill | None) -> None:
            if drill is not None:
                self._carry_out(message.ground, drill)

        self.push_screen(dialog, answered)

    def _carry_out(self, ground: DrillGround, drill: Drill) -> None:
        def work() -> Message:
            from core.watch.drilled import carry_out

            return self.Drilled(carry_out(ground, drill))

        self._say(f"working on {drill.on}", "text")
        self._beside(work)

    def _beside(self, work: Callable[[], Message]) -> None:
        def guarded() -> None:
            try:
                message = work()
            except TrimtabError as error:
                message = self.Drilled(error)
            self.post_message(message)

        self.run_worker(guarded, thread=True, group="drill", exit_on_error=False)

    def on_drilling_drilled(self, message: Drilled) -> None:
        match message.done:
            case TrimtabError() as error:
                self.tell(error)
            case None:
                self._say("There was nothing to do.", "look")
            case text:
                self._say(f"{text[:1].upper()}{text[1:]}.", "fine")

    def tell(self, error: TrimtabError) -> None:
        """Say what went wrong."""
        raise NotImplementedError

    def _say(self, text: str, role: str) -> None:
        if isinstance(self.screen, DashboardScreen):
            self.screen.say(text, role)
