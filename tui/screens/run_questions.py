"""The questions before a run is asked for something: what that does, and what it does not undo."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.widgets import Button, Input, Label

from core.run.tell.view import FLYING, MoveProgress, MoveState, RunView
from core.units import UNLIMITED, format_bytes
from tui.screens.dialog import ChoiceDialog, ConfirmDialog, Words, body, button
from tui.screens.naming import NamedDialog


class TypedDialog(NamedDialog[bool]):
    """Asks for a yes that takes the cluster's name; the way back is focused, escape takes it."""

    def __init__(self, title: str, words: Sequence[str], *, name: str, no: str, yes: str) -> None:
        super().__init__(name, "yes")
        self._title_text, self._words, self._no, self._yes = title, words, no, yes

    def compose(self) -> ComposeResult:
        return body(
            self._title_text,
            (
                Words.of(self._words),
                Label(f"Type {self.name_wanted} to go on:", classes="dim", markup=False),
                Input(compact=True, select_on_focus=False, id="name"),
            ),
            button("no", self._no),
            button("yes", self._yes, disabled=True),
        )

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def action_leave(self) -> None:
        self.dismiss(False)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


def pause_dialog(run: RunView) -> ChoiceDialog[bool | None]:
    """Return the question how far a pause goes: True to hold what is in flight too, None not."""
    flying = sum(move.state in FLYING for move in run.moves)
    answers: list[tuple[str, str, bool | None]] = [
        ("no", "Keep going", None),
        ("yes", "No further batch", False),
    ]
    how = "They cannot be held: the run has no throttle. T gives it one."
    if run.rate_bytes_per_s != UNLIMITED:
        answers.append(("floor", "Hold all", True))
        how = "Hold all: these are held at 1 byte a second too. What was copied stays."
    return ChoiceDialog(
        f"Pause run {run.run}?",
        (
            f"No further batch: the {flying} in flight go on to their end.",
            how,
            "P lets it go on; throttles stay set until the run has ended.",
        ),
        *answers,
    )


def cancel_dialog(run: RunView) -> TypedDialog:
    """Return the question before a run is cancelled, with what that does and does not undo."""
    started = [move for move in run.moves if move.state in FLYING]
    queued = sum(move.state is MoveState.QUEUED for move in run.moves)
    lost = sum(move.moved_bytes for move in started)
    return TypedDialog(
        f"Cancel run {run.run}?",
        (
            f"{len(started):,} in flight go back to their replicas, in the order they had; "
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
    back = format_bytes(sum(move.total_bytes or 0 for move in done))
    if any(move.total_bytes is None for move in done):
        back = f"at least {back}"
    return TypedDialog(
        f"Roll run {run.run} back?",
        (
            f"{len(done):,} done move back to where they were: {back} to copy again.",
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
            f"{len(started):,} in flight go back to their replicas, in the order they had; "
            f"{lost} that were copied are dropped."
        )
    if rest := len(moves) - len(started):
        words.append("It is not begun." if len(moves) == 1 else f"{rest} queued are not begun.")
    words.append("The run goes on with the others.")
    yes = "Cancel this move" if len(moves) == 1 else f"Cancel {len(moves):,} moves"
    return ConfirmDialog(f"Cancel {named(moves)}?", words, no="Keep going", yes=yes)


def recover_dialog(run: RunView) -> ConfirmDialog:
    """Return the question before a dead run's process is brought back."""
    flying = len(run.leftovers.moves) if run.leftovers else 0
    return ConfirmDialog(
        f"Bring run {run.run} back?",
        (
            "Another process reads its journal, looks at the cluster, and goes on from there.",
            f"{flying} were in flight as it died; throttles are put back as its moves end.",
        ),
        no="Leave it",
        yes="Bring it back",
    )


def named(moves: Sequence[MoveProgress]) -> str:
    """Return one move's partition, or how many there are."""
    return str(moves[0].tp) if len(moves) == 1 else f"{len(moves):,} moves"


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
