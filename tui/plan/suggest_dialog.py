"""The dialog of a suggested plan's request; it only reads what is typed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label

from core.cluster.state import ClusterState
from core.plan.plan import Plan
from tui.dialogs.base import Dialog
from tui.dialogs.inputs import Tick
from tui.plan.suggest_form import (
    CONTRADICTION,
    FIELDS,
    TOGGLES,
    FormField,
    SuggestForm,
    SuggestRequest,
    read,
)
from tui.session import Session

TOGGLE_ROWS = (TOGGLES[:4], TOGGLES[4:])


class Toggle(Tick, inherit_bindings=False):
    """A yes or no of the wish; enter is the form's."""

    BINDINGS: ClassVar = [Binding("space", "turn", "Turn")]
    DEFAULT_CSS = "Toggle { height: 1; width: auto; margin-right: 1; }"

    def __init__(self, field: FormField, ticked: bool) -> None:
        super().__init__(field.label, "", id=field.name)
        self.ticked = ticked

    def render(self) -> Text:
        return Text(f"[{'x' if self.ticked else ' '}] {self.word}", no_wrap=True)


class SuggestDialog(Dialog[tuple[SuggestForm, SuggestRequest] | None]):
    """Returns what was asked for, as typed and as read; None when it was left."""

    DEFAULT_CSS = """
    SuggestDialog .dialog { padding: 0 3; }
    SuggestDialog .title { margin: 0; }
    SuggestDialog .row { height: auto; }
    SuggestDialog .row .name { width: 13; color: $text-muted; }
    SuggestDialog .row Input { width: 24; margin: 0; }
    SuggestDialog .row .wrong { width: 1fr; margin-left: 2; color: $error; }
    SuggestDialog .toggles { height: 1; }
    SuggestDialog #meaning { height: auto; min-height: 2; color: $text-muted; }
    SuggestDialog #meaning.-wrong { color: $error; }
    SuggestDialog .buttons { margin: 0; }
    """
    BINDINGS: ClassVar = [
        Binding("escape", "leave", "Back"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(
        self,
        form: SuggestForm,
        state: ClusterState,
        plan: Plan,
        broker: int | None = None,
        topic: str | None = None,
    ) -> None:
        super().__init__()
        self._form, self._state, self._plan = form, state, plan
        self._broker, self._topic = broker, topic
        self._request: SuggestRequest | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label("Suggest a plan", classes="title", markup=False)
            for field in FIELDS:
                with Horizontal(classes="row", id=f"row-{field.name}"):
                    yield Label(field.label, classes="name", markup=False)
                    yield Input(
                        str(getattr(self._form, field.name)),
                        placeholder=self._hint(field),
                        compact=True,
                        select_on_focus=False,
                        id=field.name,
                    )
                    yield Label("", classes="wrong", markup=False, id=f"wrong-{field.name}")
            for row in TOGGLE_ROWS:
                with Horizontal(classes="toggles"):
                    for field in row:
                        if field.name != "keep_plan" or len(self._plan):
                            yield Toggle(field, bool(getattr(self._form, field.name)))
            yield Label("", id="meaning", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("Make the plan", id="make", compact=True)

    def on_mount(self) -> None:
        self.query_one("#drain", Input).focus()
        self._draw()

    def follow(self, session: Session) -> None:
        """Read what is typed by the cluster as it is now."""
        state = session.state
        if state is None or (state is self._state and session.plan is self._plan):
            return
        self._state, self._plan = state, session.plan
        self._draw()

    def _hint(self, field: FormField) -> str:
        """Return what a field says while it is empty, by what the cursor is on where it can."""
        if field.name == "topics" and self._topic:
            return f"all; like {self._topic}"
        if field.name == "drain" and self._broker is not None:
            return f"none; ids like {self._broker}"
        if field.name == "replace" and self._broker is not None:
            return f"none; old:new like {self._broker}:"
        return field.hint

    def on_tick_turned(self, message: Tick.Turned) -> None:
        self._enter(message.tick.id, message.tick.ticked)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._enter(event.input.id, event.value)

    def _enter(self, field: str | None, value: Any) -> None:
        self._form = replace(self._form, **{field or "": value})
        self._draw()

    def _draw(self) -> None:
        """Say beside each field what is wrong with it, under all what is asked for, or why not."""
        self._request, wrong = read(self._form, self._state, self._plan)
        for field in FIELDS:
            _say(self.query_one(f"#wrong-{field.name}", Label), wrong.get(field.name, ""))
        meaning = self.query_one("#meaning", Label)
        meaning.set_class(CONTRADICTION in wrong, "-wrong")
        words = self._request.meaning if self._request is not None else ""
        _say(meaning, wrong.get(CONTRADICTION, f"{words} {self._planned()}".strip()))
        self.query_one("#make", Button).disabled = self._request is None

    def _planned(self) -> str:
        count = len(self._plan)
        if not count:
            return ""
        if self._form.keep_plan:
            stay = "move stays" if count == 1 else f"{count:,} moves stay"
            return f"The plan's {stay} as planned."
        moves = "1 move makes" if count == 1 else f"{count:,} moves make"
        return f"The plan's {moves} room for it; u brings them back."

    def on_key(self, event: events.Key) -> None:
        if event.key == "enter" and isinstance(self.focused, Toggle):
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
        if self._request is not None:
            self.dismiss((self._form, self._request))


def _say(label: Label, text: str) -> None:
    if label.content != text:
        label.update(text)
