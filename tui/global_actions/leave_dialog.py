"""The question what becomes of a plan as the dashboard is left; it stays until the plan is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from textual.widgets import Button

from core.units import counted
from tui.dialogs.base import ChoiceDialog, Question
from tui.session import Session

Answer = Literal["stay", "keep", "drop"]


class LeaveDialog(ChoiceDialog[Answer]):
    """Asks, with staying focused; `keep` begins to write the plan, and the answer waits for it."""

    BINDINGS = [("q", "leave_without", "Leave")]

    def __init__(self, session: Session, keep: Callable[[], None]) -> None:
        self._session, self._keep = session, keep
        self._progress = ""
        """How far the plan is kept, while it is."""
        self._failure = ""
        """Why it could not be kept."""
        super().__init__(
            "Leave with a plan that is not applied?",
            self._question,
            ("stay", "Stay", "stay"),
            ("keep", "Leave, keep it", "keep"),
            ("drop", "Leave, throw it away", "drop"),
        )

    def _question(self, session: Session) -> Question:
        moves = len(session.plan_to_keep)
        words = "A run carries it out by now: nothing would be lost."
        if moves:
            words = (
                f"It has {counted(moves, 'move')}. Kept, it is here again when the dashboard is "
                "next opened on this cluster, from this machine."
            )
        # It refuses no button: each of them may help.
        return Question([self._progress or words], {"": self._failure})

    def show_progress(self, words: str) -> None:
        """Say how far the plan is kept."""
        self._progress, self._failure = words, ""
        self.follow(self._session)

    def show_failure(self, why: str) -> None:
        """Say why it could not be kept, and ask again."""
        self._progress, self._failure = "", why
        self.follow(self._session)

    async def action_leave_without(self) -> None:
        if self._progress:
            await self.app.action_quit()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "keep":
            event.prevent_default()  # it is no answer yet
            if not self._progress:
                self._keep()
