"""Two small dialogs: one asks for a line of text, one for a yes. Cancel is always there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label

from tui.painting import PreciseCompositor

if TYPE_CHECKING:
    from tui.shown_on import Dashboard

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer], Generic[Answer]):
    """How dialogs look: one quiet box; without colour it has a frame and focus is reversed."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    Dialog .dialog {
        width: 78; max-width: 96%; height: auto; max-height: 96%;
        padding: 1 3; background: $surface;
    }
    Dialog .dialog Label { width: 100%; }
    Dialog .title { text-style: bold; margin-bottom: 1; }
    Dialog .dim { color: $text-muted; }
    Dialog Input { margin: 1 0; background: $background; height: 1; border: none; padding: 0 1; }
    Dialog .buttons { height: 1; margin-top: 1; }
    Dialog Button { margin-right: 2; min-width: 12; background: $secondary; color: $foreground; }
    Dialog Button:focus { background: $primary; color: $background; text-style: bold; }
    Dialog Button:disabled { color: $text-muted; background: $background; }
    Dialog.-plain { background: transparent; }
    Dialog.-plain .dialog { border: solid $foreground; padding: 0 2; }
    Dialog.-plain Button:focus { text-style: bold reverse; }
    Dialog.-plain .buttons Button.-textual-compact { border: none !important; }
    Dialog.-plain .buttons Button.-textual-compact:disabled {
        border: none !important; text-style: dim;
    }
    Dialog.-plain Input { text-style: underline; }
    Dialog.-ascii .dialog { border: ascii $foreground; padding: 0 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = PreciseCompositor()

    def on_mount(self) -> None:
        app = cast("Dashboard", self.app)
        self.set_class(app.palette.plain, "-plain")
        self.set_class(app.ascii_only, "-ascii")


class AskDialog(Dialog[str | None]):
    """Asks for one line; the answer is None when it is left with Cancel or escape."""

    BINDINGS = [("escape", "leave", "Cancel")]

    def __init__(self, question: str, proposal: str, yes: str) -> None:
        super().__init__()
        self._question, self._proposal, self._yes = question, proposal, yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._question, classes="title", markup=False)
            yield Input(self._proposal, compact=True, id="answer")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(self._yes, id="yes", compact=True)

    def on_mount(self) -> None:
        self.query_one("#answer").focus()

    def action_leave(self) -> None:
        self.dismiss(None)

    def on_input_submitted(self) -> None:
        self._answer()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "yes":
            self._answer()
        else:
            self.dismiss(None)

    def _answer(self) -> None:
        self.dismiss(self.query_one("#answer", Input).value.strip() or None)


class ConfirmDialog(Dialog[bool]):
    """Asks for a yes; the way back is focused, escape takes it."""

    BINDINGS = [
        ("escape", "leave", "Back"),
        ("left", "app.focus_previous"),
        ("right", "app.focus_next"),
    ]

    def __init__(self, title: str, words: Sequence[str], *, no: str, yes: str) -> None:
        super().__init__()
        self._title_text, self._words, self._no, self._yes = title, words, no, yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title_text, classes="title", markup=False)
            for text in self._words:
                yield Label(text, markup=False)
            with Horizontal(classes="buttons"):
                yield Button(self._no, id="no", compact=True)
                yield Button(self._yes, id="yes", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def action_leave(self) -> None:
        self.dismiss(False)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")
