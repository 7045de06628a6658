"""The autopilot's switch as a dialog: how it stands, and off, suggest or act. No effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label

from core.auto.settings import Mode, Settings
from core.auto.words import in_one_line
from tui.screens.dialog import Words
from tui.screens.naming import NamingDialog

if TYPE_CHECKING:
    from core.auto.background import Standing


class AutopilotDialog(NamingDialog[Mode | None]):
    """Asks for a mode; `act` takes the cluster's name, the way back is focused, escape takes it."""

    BINDINGS = [
        ("escape", "leave", "Back"),
        ("down", "app.focus_next"),
        ("up", "app.focus_previous"),
    ]

    def __init__(
        self, name: str, standing: Standing | None, *, writable: bool, because: str
    ) -> None:
        super().__init__()
        self._name_wanted, self._standing = name, standing
        self._writable, self._because = writable, because

    def compose(self) -> ComposeResult:
        standing = self._standing
        settings = standing.switch.settings if standing is not None else Settings()
        off = settings.mode is Mode.OFF
        with Vertical(classes="dialog"):
            yield Label(f"Autopilot of {self._name_wanted}", classes="title", markup=False)
            with Words():
                for text in _how(standing):
                    yield Label(text, markup=False)
                yield Label(f"Its limits: {in_one_line(settings)}.", markup=False)
                yield Label(
                    "Suggest writes down what act would do; neither needs the dashboard.",
                    markup=False,
                )
            why = "" if self._writable else f" Read-only: {self._because}."
            yield Label(
                f"To let it act, type {self._name_wanted}:{why}", classes="dim", markup=False
            )
            yield Input(compact=True, select_on_focus=False, id="name", disabled=not self._writable)
            with Horizontal(classes="buttons"):
                yield Button("Back", id="back", compact=True)
                yield Button("Off", id="off", compact=True, disabled=off)
                yield Button("Suggest", id="suggest", compact=True, disabled=not self._writable)
                yield Button("Act", id="act", compact=True, disabled=True)

    def on_mount(self) -> None:
        self.query_one("#back").focus()

    def on_input_changed(self) -> None:
        self.query_one("#act", Button).disabled = self.typed != self._name_wanted

    def on_input_submitted(self) -> None:
        """Enter after the name goes to the button; it takes one more key."""
        button = self.query_one("#act", Button)
        if not button.disabled:
            button.focus()

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
