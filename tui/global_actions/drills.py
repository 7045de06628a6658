"""Drills from the dashboard: asks what to break, has it done beside, and says what was done."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from core.errors import TrimtabError
from tui.screen.app_base import AppBase
from tui.screen.base import DashboardScreen

if TYPE_CHECKING:
    from core.cluster.drills.drill import Drill, DrillTarget, Offer
    from tui.global_actions.drill_dialog import DrillDialog

DRILL = "drill"
"""The action's id; where there is no ground for it, nothing shows it and its key does nothing."""


class Drills(AppBase):
    """The part of the dashboard that drills; `session.ground` says whether there is where."""

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
        dialog = DrillDialog(ground.name, self._have_looked, broker=broker, topic=topic)

        def answered(drill: Drill | None) -> None:
            if drill is not None:
                self._carry_out(ground, drill)

        self.push_screen(dialog, answered)
        self._have_looked(dialog)

    def _have_looked(self, dialog: DrillDialog) -> None:
        """Have a thread look what can be done now; the dialog offers it."""
        ground, state = self.session.ground, self.session.state
        assert ground is not None
        assert state is not None
        self.run_in_background("drill", lambda: ground.offers(state), partial(self._offer, dialog))

    def _offer(self, dialog: DrillDialog, found: tuple[Offer, ...] | TrimtabError) -> None:
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
        self.run_in_background("drill", work, self._drilled)

    def _drilled(self, done: str | TrimtabError | None) -> None:
        match done:
            case TrimtabError() as error:
                self.report_error(error)
            case None:
                self.say("There was nothing to do.", "look")
            case text:
                self.say(f"{text[:1].upper()}{text[1:]}.", "fine")
