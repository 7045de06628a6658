"""The dialog of the autopilot's switch: its status, and off, suggest or act. No effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.widgets import Button, Input, Label

from core.autopilot.settings import AutopilotSettings, Mode, limits_in_one_line
from tui.dialogs.base import Question, Words, body, button
from tui.dialogs.inputs import NamedButtonDialog

if TYPE_CHECKING:
    from core.autopilot.daemon import AutopilotStatus
    from tui.session import Session


class AutopilotDialog(NamedButtonDialog[Mode | None]):
    """Asks for a mode; `act` takes the cluster's name, the way back is focused, escape takes it."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.cluster_name, "act")
        self._session = session

    def compose(self) -> ComposeResult:
        return body(
            f"Autopilot of {self.cluster_name}",
            (
                Words.of(self._question.words),
                Label("", classes="dim", markup=False, id="how"),
                Input(compact=True, select_on_focus=False, id="name"),
            ),
            button("back", "Back"),
            button("off", "Off"),
            button("suggest", "Suggest"),
            button("act", "Act", disabled=True),
        )

    def on_mount(self) -> None:
        self.query_one("#back").focus()
        self.follow(self._session)

    @property
    def _question(self) -> Question:
        status = self._session.autopilot
        settings = status.switch.settings if status is not None else AutopilotSettings()
        words = (
            *_how(status),
            f"Its limits: {limits_in_one_line(settings)}.",
            "Suggest writes down what act would do; neither needs the dashboard.",
        )
        refused = {} if self._session.writable else {"suggest": "", "act": ""}
        return Question(words, refused | ({"off": ""} if settings.mode is Mode.OFF else {}))

    def follow(self, session: Session) -> None:
        """Say how it stands now, and offer what may be set now."""
        how = self.query_one("#how", Label)
        text = f"To let it act, type {self.cluster_name}: {session.read_only_words}".rstrip()
        if how.content != text:
            how.update(text)
        name = self.query_one("#name", Input)
        if not session.writable and name.has_focus:
            self.query_one("#back").focus()
        name.disabled = not session.writable
        self.renew(self._question)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(None if event.button.id == "back" else Mode(event.button.id))


def _how(status: AutopilotStatus | None) -> list[str]:
    if status is None:
        return ["It is off, and never was on."]
    switch = status.switch
    gone = "" if status.process is not None or switch.mode is Mode.OFF else ", process gone"
    words = [f"Mode {switch.mode.value}{gone}, set by {switch.who}."]
    if status.last is not None:
        at = status.last.at.astimezone()
        words.append(f"{at:%H:%M:%S} {status.last.what.value}: {status.last.text}")
    return words
