"""The autopilot's switch as a dialog: how it stands, and off, suggest or act. No effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.widgets import Button, Input, Label

from core.auto.settings import Mode, Settings
from core.auto.words import in_one_line
from tui.screens.dialog import Words, body, button
from tui.screens.naming import NamedDialog

if TYPE_CHECKING:
    from core.auto.background import Standing


class AutopilotDialog(NamedDialog[Mode | None]):
    """Asks for a mode; `act` takes the cluster's name, the way back is focused, escape takes it."""

    def __init__(
        self, name: str, standing: Standing | None, *, writable: bool, because: str
    ) -> None:
        super().__init__(name, "act")
        self._standing = standing
        self._writable, self._because = writable, because

    def compose(self) -> ComposeResult:
        standing, writable = self._standing, self._writable
        settings = standing.switch.settings if standing is not None else Settings()
        why = "" if writable else f" Read-only: {self._because}."
        how = f"To let it act, type {self.name_wanted}:{why}"
        said = (
            *_how(standing),
            f"Its limits: {in_one_line(settings)}.",
            "Suggest writes down what act would do; neither needs the dashboard.",
        )
        return body(
            f"Autopilot of {self.name_wanted}",
            (
                Words.of(said),
                Label(how, classes="dim", markup=False),
                Input(compact=True, select_on_focus=False, id="name", disabled=not writable),
            ),
            button("back", "Back"),
            button("off", "Off", disabled=settings.mode is Mode.OFF),
            button("suggest", "Suggest", disabled=not writable),
            button("act", "Act", disabled=True),
        )

    def on_mount(self) -> None:
        self.query_one("#back").focus()

    def action_leave(self) -> None:
        self.dismiss(None)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(None if event.button.id == "back" else Mode(event.button.id))


def _how(standing: Standing | None) -> list[str]:
    """Return the mode, who set it, and what was decided last."""
    if standing is None:
        return ["It is off, and never was on."]
    switch = standing.switch
    flies = "" if standing.process is not None or switch.mode is Mode.OFF else ", process gone"
    words = [f"Mode {switch.mode.value}{flies}, set by {switch.who}."]
    if standing.last is not None:
        at = standing.last.at.astimezone()
        words.append(f"{at:%H:%M:%S} {standing.last.what.value}: {standing.last.text}")
    return words
