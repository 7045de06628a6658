"""Checkboxes of a dialog: a label, an explanation, a state."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widget import Widget


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
