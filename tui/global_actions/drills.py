"""Drills from the dashboard: asks which fault, injects it in a worker, reports the result."""

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


class Drills:
    """What the dashboard drills with; `session.ground` says whether there is where."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    def open(self) -> None:
        """Ask what to break."""
        ground, state, screen = self._app.session.ground, self._app.session.state, self._app.screen
        if ground is None or state is None or not isinstance(screen, DashboardScreen):
            return
        if why := self._app.session.read_only_words:
            screen.say(why, "look")
            return
        if screen.session is not self._app.session:
            screen.say("The past cannot be broken: 0 goes back to now.", "look")
            return

        from tui.global_actions.drill_dialog import DrillDialog

        broker, topic = self._app.session.cursor_at or (None, None)
        dialog = DrillDialog(ground.name, self._have_looked, broker=broker, topic=topic)

        def answered(drill: Drill | None) -> None:
            if drill is not None:
                self._carry_out(ground, drill)

        self._app.push_screen(dialog, answered)
        self._have_looked(dialog)

    def _have_looked(self, dialog: DrillDialog) -> None:
        ground, state = self._app.session.ground, self._app.session.state
        assert ground is not None
        assert state is not None
        self._app.run_in_background(
            "drill", lambda: ground.offers(state), partial(self._offer, dialog)
        )

    def _offer(self, dialog: DrillDialog, found: tuple[Offer, ...] | TrimtabError) -> None:
        if dialog not in self._app.screen_stack:  # left meanwhile
            return
        if isinstance(found, TrimtabError) and dialog.offered:
            dialog.refuse(str(found))
        elif isinstance(found, TrimtabError):
            dialog.dismiss(None)
            self._app.call_after_refresh(self._app.report_error, found)
        else:
            dialog.offer(found)

    def _carry_out(self, ground: DrillTarget, drill: Drill) -> None:
        if why := self._app.session.read_only_words:  # it may have become so while it was asked
            self._app.say(why, "look")
            return

        def work() -> str | None:
            from core.watch.timeline.publisher import run_drill

            return run_drill(ground, drill)

        self._app.say(f"working on {drill.on}", "text")
        self._app.run_in_background("drill", work, self._drilled)

    def _drilled(self, done: str | TrimtabError | None) -> None:
        match done:
            case TrimtabError() as error:
                self._app.report_error(error)
            case None:
                self._app.say("There was nothing to do.", "look")
            case text:
                self._app.say(f"{text[:1].upper()}{text[1:]}.", "fine")
