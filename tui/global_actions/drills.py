"""Drills from the dashboard: asks what to break, has it done beside, and says what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from core.errors import TrimtabError
from tui.screen.app_base import AppBase
from tui.screen.base import DashboardScreen

if TYPE_CHECKING:
    from core.cluster.drills.drill import Drill, DrillTarget, Offer
    from core.cluster.state import ClusterState
    from tui.global_actions.drill_dialog import DrillDialog

DRILL = "drill"
"""The action's id; where there is no ground for it, nothing shows it and its key does nothing."""


class Drills(AppBase):
    """The part of the dashboard that drills; `session.ground` says whether there is where."""

    class Offered(Message):
        """A worker has looked what can be done now, or says why it could not."""

        def __init__(self, dialog: DrillDialog, found: tuple[Offer, ...] | TrimtabError) -> None:
            super().__init__()
            self.dialog, self.found = dialog, found

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
        if why := self.session.read_only_words:
            screen.say(why, "look")
            return
        if screen.session is not self.session:
            screen.say("The past cannot be broken: 0 goes back to now.", "look")
            return

        from tui.global_actions.drill_dialog import DrillDialog

        broker, topic = self.session.cursor_at or (None, None)
        dialog = DrillDialog(ground.name, broker=broker, topic=topic)

        def answered(drill: Drill | None) -> None:
            if drill is not None:
                self._carry_out(ground, drill)

        self.push_screen(dialog, answered)
        self._have_looked(dialog, ground, state)

    def _have_looked(self, dialog: DrillDialog, ground: DrillTarget, state: ClusterState) -> None:
        self.run_in_background(
            "drill", lambda: ground.offers(state), lambda found: self.Offered(dialog, found)
        )

    def on_drill_dialog_outdated(self, message: DrillDialog.Outdated) -> None:
        ground, state = self.session.ground, self.session.state
        assert ground is not None
        assert state is not None
        self._have_looked(message.dialog, ground, state)

    def on_drills_offered(self, message: Offered) -> None:
        dialog, found = message.dialog, message.found
        if dialog not in self.screen_stack:  # left meanwhile
            return
        if isinstance(found, TrimtabError) and dialog.offered:
            dialog.refuse(str(found))
        elif isinstance(found, TrimtabError):
            dialog.dismiss(None)
            self.call_after_refresh(self.report_error, found)
        else:
            dialog.offer(found)

    def _carry_out(self, ground: DrillTarget, drill: Drill) -> None:
        if why := self.session.read_only_words:  # it may have become so while it was asked
            self.say(why, "look")
            return

        def work() -> str | None:
            from core.watch.timeline.publisher import run_drill

            return run_drill(ground, drill)

        self.say(f"working on {drill.on}", "text")
        self.run_in_background("drill", work, self.Drilled)

    def on_drills_drilled(self, message: Drilled) -> None:
        match message.done:
            case TrimtabError() as error:
                self.report_error(error)
            case None:
                self.say("There was nothing to do.", "look")
            case text:
                self.say(f"{text[:1].upper()}{text[1:]}.", "fine")
