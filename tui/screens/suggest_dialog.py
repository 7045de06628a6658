"""The form that a whole plan is asked for with; it only reads what is typed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Input, Label

from core.cluster.state import ClusterState
from core.plan.plan import Plan
from tui.screens.ask import Dialog
from tui.wish import MEANING, WITH, Asked, Intent, Wish, read

FIELDS = {
    "which": ("brokers", "3,4"),
    "topics": ("topics", "all; a regular expression"),
    "keep": ("keep", "none; a regular expression"),
    "exclude": ("exclude", "no broker; ids like 3,4"),
    "band": ("band %", "10"),
    "max_bytes": ("max bytes", "no limit; like 500GB"),
    "max_moves": ("max moves", "no limit; like 200"),
    "within": ("within", "no deadline; like 6h"),
}
"""Each field's name and what is dim in it while it is empty."""


class Choice(Widget, can_focus=True):
    """What the plan is for; left, right, space and a click go through it."""

    BINDINGS: ClassVar = [
        Binding("right,space", "turn(1)", "Next"),
        Binding("left", "turn(-1)", "Previous"),
    ]
    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; }
    Choice:focus { background: $secondary; text-style: bold; }
    .-plain Choice:focus { text-style: bold reverse; }
    """

    class Turned(Message):
        """Another intent stands in it."""

    def __init__(self, intent: Intent) -> None:
        super().__init__(id="intent")
        self.intent = intent

    def render(self) -> Text:
        return Text(f"< {self.intent.value} >", no_wrap=True)

    def action_turn(self, step: int) -> None:
        every = list(Intent)
        self.intent = every[(every.index(self.intent) + step) % len(every)]
        self.refresh()
        self.post_message(self.Turned())

    def on_click(self, event: events.Click) -> None:
        self.focus()
        self.action_turn(-1 if event.x == 0 else 1)


class SuggestDialog(Dialog[tuple[Wish, Asked] | None]):
    """Returns what was asked for, as typed and as read; None when it was left."""

    DEFAULT_CSS = """
    SuggestDialog .row { height: auto; }
    SuggestDialog .row .name { width: 11; color: $text-muted; }
    SuggestDialog .row Input { width: 28; margin: 0; }
    SuggestDialog .row .wrong { width: 1fr; margin-left: 2; color: $error; }
    SuggestDialog #meaning { margin-top: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar = [
        Binding("escape", "leave", "Back"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(
        self, wish: Wish, state: ClusterState, plan: Plan, topic: str | None = None
    ) -> None:
        super().__init__()
        self._wish, self._state, self._plan, self._topic = wish, state, plan, topic
        self._asked: Asked | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label("Suggest a plan", classes="title", markup=False)
            with Horizontal(classes="row"):
                yield Label("for", classes="name")
                yield Choice(self._wish.intent)
            for field, (name, hint) in FIELDS.items():
                with Horizontal(classes="row", id=f"row-{field}"):
                    yield Label(name, classes="name", markup=False, id=f"name-{field}")
                    yield Input(
                        self._text(field),
                        placeholder=self._hint(field, hint),
                        compact=True,
                        select_on_focus=False,
                        id=field,
                    )
                    yield Label("", classes="wrong", markup=False, id=f"wrong-{field}")
            yield Label("", id="meaning", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("Make the plan", id="make", compact=True)

    def on_mount(self) -> None:
        self.query_one(Choice).focus()
        self._draw()

    def _text(self, field: str) -> str:
        if field == "which":
            return self._wish.which.get(self._wish.intent, "")
        return str(getattr(self._wish, field))

    def _hint(self, field: str, hint: str) -> str:
        """Return what a field says while it is empty: for topics also what the cursor is on."""
        return f"all; like {self._topic}" if field == "topics" and self._topic else hint

    # -- what is typed ---------------------------------------------------------------------------

    def on_choice_turned(self) -> None:
        self._wish = replace(self._wish, intent=self.query_one(Choice).intent)
        field = self.query_one("#which", Input)
        with field.prevent(Input.Changed):
            field.value = self._text("which")
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        name, text = event.input.id or "", event.value
        if name == "which":
            self._wish = self._wish.beside(text)
        else:
            typed: dict[str, Any] = {name: text}
            self._wish = replace(self._wish, **typed)
        self._draw()

    def _draw(self) -> None:
        """Say beside each field what is wrong with it, and under all what the plan is for."""
        intent = self._wish.intent
        self._asked, wrong = read(self._wish, self._state)
        self.query_one("#row-which").display = intent in WITH
        self.query_one("#name-which", Label).update(WITH.get(intent, ""))
        for field in FIELDS:
            self.query_one(f"#wrong-{field}", Label).update(wrong.get(field, ""))
        words = MEANING[intent]
        if count := len(self._plan):
            moves = "1 move makes" if count == 1 else f"{count} moves make"
            words += f"\nThe plan's {moves} room for it; u brings them back."
        self.query_one("#meaning", Label).update(words)
        self.query_one("#make", Button).disabled = self._asked is None

    # -- leaving ---------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if event.key == "enter" and isinstance(self.focused, Choice):
            event.stop()
            self._make()

    def on_input_submitted(self) -> None:
        self._make()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "make":
            self._make()
        else:
            self.action_leave()

    def _make(self) -> None:
        if self._asked is not None:
            self.dismiss((self._wish, self._asked))

    def action_leave(self) -> None:
        self.dismiss(None)
