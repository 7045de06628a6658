"""Inputs of dialogs: checkboxes, and the cluster's name typed as confirmation.

Cancel has the focus at first, but what is typed, or pasted, is the name; on a box that is ticked
with space, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Input, Label

from tui.dialogs.base import Answer, AnswerDialog, Ask, Dialog


class Tick(Widget, can_focus=True):
    """One box; space or enter turns it, and so does a click."""

    BINDINGS = [Binding("space,enter", "turn", "Turn")]
    DEFAULT_CSS = """
    Tick { height: auto; }
    Tick:focus { background: $secondary; text-style: bold; }
    .-plain Tick:focus { text-style: bold reverse; }
    """

    class Turned(Message):
        """It was ticked, or not any more."""

        def __init__(self, tick: Tick) -> None:
            super().__init__()
            self.tick = tick

    def __init__(self, word: str, sentence: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.word, self.sentence = word, sentence
        self.ticked = False

    @property
    def subject(self) -> str:
        """Return what stays the same of it while what it says changes."""
        return type(self).__name__

    def renew(self, other: Tick) -> bool:
        """Say what another of the same subject says; return whether it had to be unticked."""
        if self.sentence != other.sentence:
            self.sentence = other.sentence
            self.refresh(layout=True)
        return False

    def render(self) -> Text:
        box = "[x]" if self.ticked else "[ ]"
        return Text.assemble((f"{box} {self.word}", "bold"), f"  {self.sentence}")

    def turn(self, ticked: bool) -> None:
        """Tick it, or not; says so when that changes it."""
        if self.ticked is not ticked:
            self.ticked = ticked
            self.refresh()
            self.post_message(self.Turned(self))

    def action_turn(self) -> None:
        self.turn(not self.ticked)

    def on_click(self, event: events.Click) -> None:
        self.focus()
        self.action_turn()


class ClusterNameDialog(Dialog[Answer]):
    """A dialog with an Input `#name`; `entered_name` is what stands in it."""

    @property
    def entered_name(self) -> str:
        return self.query_one("#name", Input).value

    def on_key(self, event: events.Key) -> None:
        """Type what no widget took: also what was sent to a button that has lost focus since."""
        ticking = isinstance(self.focused, Tick) and event.key == "space"
        if not ticking and event.is_printable and event.character:
            self._append_text(event.character)
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        self._append_text(event.text.strip())
        event.stop()

    def _append_text(self, text: str) -> None:
        field = self.query_one("#name", Input)
        self.set_focus(field)
        field.value += text
        field.cursor_position = len(field.value)


class NamedAnswerDialog(ClusterNameDialog[Answer], AnswerDialog[Answer]):
    """Asks which; the last button waits for the cluster's name to be typed."""

    BINDINGS = [("down", "app.focus_next"), ("up", "app.focus_previous")]

    def __init__(self, title: str, ask: Ask, name: str, *answers: tuple[str, str, Answer]) -> None:
        super().__init__(title, ask, *answers)
        self.cluster_name, self._waiting = name, answers[-1][0]

    def fields(self) -> Iterable[Widget]:
        yield Label(f"Type {self.cluster_name} to go on:", classes="dim", markup=False, id="how")
        yield Input(compact=True, select_on_focus=False, id="name")

    def on_input_changed(self) -> None:
        self.enable_buttons()

    def may_press(self, id: str) -> bool:
        named = self.entered_name == self.cluster_name
        return super().may_press(id) and (named or id != self._waiting)

    def on_input_submitted(self) -> None:
        """Enter after the name goes to the button; it takes one more key."""
        button = self.query_one(f"#{self._waiting}", Button)
        if not button.disabled:
            button.focus()
