"""The questions before a run is asked for something: what that does, and what it does not undo."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label

from core.run.tell.view import MoveProgress, MoveState, RunView
from core.units import UNLIMITED, format_bytes
from tui.screens.dialog import ConfirmDialog, Dialog, Words
from tui.screens.naming import NamingDialog

FLYING = (MoveState.MOVING, MoveState.STUCK)


class TypedDialog(NamingDialog[bool]):
    """Asks for a yes that takes the cluster's name; the way back is focused, escape takes it."""

    BINDINGS = [
        ("escape", "leave", "Back"),
        ("down", "app.focus_next"),
        ("up", "app.focus_previous"),
    ]

    def __init__(self, title: str, words: Sequence[str], *, name: str, no: str, yes: str) -> None:
        super().__init__()
        self._title_text, self._words, self._no, self._yes = title, words, no, yes
        self._name_wanted = name

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title_text, classes="title", markup=False)
            with Words():
                for text in self._words:
                    yield Label(text, markup=False)
            yield Label(f"Type {self._name_wanted} to go on:", classes="dim", markup=False)
            yield Input(compact=True, select_on_focus=False, id="name")
            with Horizontal(classes="buttons"):
                yield Button(self._no, id="no", compact=True)
                yield Button(self._yes, id="yes", compact=True, disabled=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def on_input_changed(self) -> None:
        self.query_one("#yes", Button).disabled = self.typed != self._name_wanted

    def on_input_submitted(self) -> None:
        """Enter after the name goes to the button; it takes one more key."""
        button = self.query_one("#yes", Button)
        if not button.disabled:
            button.focus()

    def action_leave(self) -> None:
        self.dismiss(False)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class PauseDialog(Dialog[bool | None]):
    """Asks how far a pause goes: True to hold what is in flight too, None to go on."""

    BINDINGS = [
        ("escape", "leave", "Back"),
        ("left", "app.focus_previous"),
        ("right", "app.focus_next"),
    ]

    def __init__(self, title: str, words: Sequence[str], *, holds: bool) -> None:
        """Ask with these words; `holds` says whether what is in flight can be held."""
        super().__init__()
        self._title_text, self._words, self._holds = title, words, holds

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title_text, classes="title", markup=False)
            with Words():
                for text in self._words:
                    yield Label(text, markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Keep going", id="no", compact=True)
                yield Button("No further batch", id="yes", compact=True)
                if self._holds:
                    yield Button("Hold all", id="floor", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        answers = {"yes": False, "floor": True}
        self.dismiss(answers.get(event.button.id or ""))

    def action_leave(self) -> None:
        self.dismiss(None)


def pause_dialog(run: RunView) -> PauseDialog:
    flying = sum(move.state in FLYING for move in run.moves)
    holds = run.rate_bytes_per_s != UNLIMITED
    how = (
        "Hold all: these are held at 1 byte a second too. What was copied stays."
        if holds
        else "They cannot be held: the run has no throttle. T gives it one."
    )
    return PauseDialog(
        f"Pause run {run.run}?",
        (
            f"No further batch: the {flying} in flight go on to their end.",
            how,
            "P lets it go on; throttles stay set until the run has ended.",
        ),
        holds=holds,
    )


def cancel_dialog(run: RunView) -> TypedDialog:
    """Return the question before a run is cancelled, with what that does and does not undo."""
    started = [move for move in run.moves if move.state in FLYING]
    queued = sum(move.state is MoveState.QUEUED for move in run.moves)
    lost = sum(move.moved_bytes for move in started)
    return TypedDialog(
        f"Cancel run {run.run}?",
        (
            f"{len(started)} in flight go back to their replicas, in the order they had; "
            f"{format_bytes(lost)} that were copied are dropped.",
            f"{queued} queued are not begun.",
            f"{run.done} done stay where they are: R rolls them back.",
            "Throttles return to what they were.",
        ),
        name=run.cluster_name,
        no="Keep going",
        yes="Cancel the run",
    )


def roll_back_dialog(run: RunView) -> TypedDialog:
    """Return the question before a run is rolled back."""
    started = sum(move.state in FLYING for move in run.moves)
    done = [move for move in run.moves if move.state is MoveState.DONE]
    back = sum(move.total_bytes or 0 for move in done)
    return TypedDialog(
        f"Roll run {run.run} back?",
        (
            f"{len(done)} done move back to where they were: {format_bytes(back)} to copy again.",
            f"{started} in flight go back at once, in the order they had.",
            "Queued ones are not begun. It takes the same throttle.",
        ),
        name=run.cluster_name,
        no="Keep going",
        yes="Roll back",
    )


def cancel_some_dialog(moves: Sequence[MoveProgress]) -> ConfirmDialog:
    """Return the question before some moves of a run are cancelled, the run going on."""
    started = [move for move in moves if move.state in FLYING]
    words = []
    if len(moves) == 1 and started:
        words.append(
            f"It goes back to {_ids(moves[0].before)}, in that order; "
            f"{format_bytes(moves[0].moved_bytes)} that were copied are dropped."
        )
    elif started:
        lost = format_bytes(sum(move.moved_bytes for move in started))
        words.append(
            f"{len(started)} in flight go back to their replicas, in the order they had; "
            f"{lost} that were copied are dropped."
        )
    if rest := len(moves) - len(started):
        words.append("It is not begun." if len(moves) == 1 else f"{rest} queued are not begun.")
    words.append("The run goes on with the others.")
    yes = "Cancel this move" if len(moves) == 1 else f"Cancel {len(moves)} moves"
    return ConfirmDialog(f"Cancel {named(moves)}?", words, no="Keep going", yes=yes)


def recover_dialog(run: RunView) -> ConfirmDialog:
    """Return the question before a dead run's process is brought back."""
    flying = len(run.leftovers.moves) if run.leftovers else 0
    return ConfirmDialog(
        f"Bring run {run.run} back?",
        (
            "Another process reads its journal, looks at the cluster, and goes on from there.",
            f"It left {flying} in flight; throttles are put back as its moves end.",
        ),
        no="Leave it",
        yes="Bring it back",
    )


def named(moves: Sequence[MoveProgress]) -> str:
    """Return one move's partition, or how many there are."""
    return str(moves[0].tp) if len(moves) == 1 else f"{len(moves)} moves"


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
