"""Confirmations before requests to a run: what each does and does not undo.

They go with the run while they are open.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from core.errors import TrimtabError
from core.run.reporting.views import DUE, IN_FLIGHT, MoveProgress, MoveStatus, RunStatus, RunView
from core.units import UNLIMITED, format_bytes, id_list
from tui.dialogs.base import Ask, ChoiceDialog, ConfirmDialog, Question, TableDialog
from tui.dialogs.inputs import NamedAnswerDialog
from tui.moves.drawing.status import accepts_requests, is_paused
from tui.plan.assessment_worker import REASSESS_SECONDS, AssessmentWorker
from tui.session import Session

Answer = TypeVar("Answer")
Outcome = TypeVar("Outcome")


class ConfirmByNameDialog(NamedAnswerDialog[bool]):
    """Asks for a yes that takes the cluster's name."""

    def __init__(self, title: str, ask: Ask, *, name: str, yes: str) -> None:
        super().__init__(title, ask, name, ("no", "Keep going", False), ("yes", yes, True))


class RunTableDialog(TableDialog[Answer], Generic[Answer, Outcome]):
    """Rows about a run, assessed in a thread as it goes on; returns the one chosen, if any."""

    BINDINGS = [("left", "app.focus_previous"), ("right", "app.focus_next")]
    UNKNOWN: ClassVar[str]
    """What is not known where an assessment fails."""

    def __init__(self, yes: str, rest_seconds: float = REASSESS_SECONDS) -> None:
        super().__init__("Keep it", yes)
        self._assessing: AssessmentWorker[Outcome] = AssessmentWorker(
            self, self.take, self._show_failure, rest_seconds=rest_seconds
        )
        self._failed = ""
        """Why the newest picture could not be assessed."""
        self._read_only = ""
        """Why no run may be asked for anything."""

    @abstractmethod
    def take(self, outcome: Outcome) -> None:
        """Take what was assessed."""

    def _show_failure(self, error: TrimtabError) -> None:
        self._failed = f"{self.UNKNOWN} could not be assessed: {error}"
        self.draw()


def current_run(session: Session, run: RunView) -> RunView:
    """Return what is known of a run by now."""
    newest = session.run
    return newest if newest is not None and newest.run == run.run else run


def follow_run(run: RunView, question: Callable[[RunView], Question]) -> Ask:
    """Return what is to be asked about a run as it goes on; where nothing may be, it says why."""
    known = run

    def ask(session: Session) -> Question:
        nonlocal known
        known = current_run(session, known)
        prompt = question(known)
        why = session.read_only_words
        if not (why or accepts_requests(known)):
            why = f"The run has ended meanwhile ({known.state.value})."
        return Question(prompt.words, {"yes": why, "floor": why}) if why else prompt

    return ask


def pause_dialog(run: RunView) -> ChoiceDialog[bool | None]:
    """Return the question how far a pause goes: True to hold what is in flight too, None not."""
    return ChoiceDialog(
        f"Pause run {run.run}?",
        follow_run(run, pause_question),
        ("no", "Keep going", None),
        ("yes", "No further batch", False),
        ("floor", "Hold all", True),
    )


def pause_question(run: RunView) -> Question:
    in_flight = sum(move.state in IN_FLIGHT for move in run.moves)
    words = (
        f"No further batch: the {in_flight} in flight go on to their end.",
        "Hold all: these are held at 1 byte a second too. What was copied stays.",
        "P lets it go on; throttles stay set until the run has ended.",
    )
    refused = {}
    if run.rate_bytes_per_s == UNLIMITED:
        refused["floor"] = "They cannot be held: the run has no throttle. T gives it one."
    if is_paused(run) and not run.paused_itself:
        refused["yes"] = "The run is paused already."
    if run.state is RunStatus.CANCELLING:
        refused = dict.fromkeys(("yes", "floor"), "The run is being cancelled.")
    return Question(words, refused)


def cancel_dialog(run: RunView) -> ConfirmByNameDialog:
    """Return the question before a run is cancelled, with what that does and does not undo."""
    title, ask = f"Cancel run {run.run}?", follow_run(run, cancel_question)
    return ConfirmByNameDialog(title, ask, name=run.cluster_name, yes="Cancel the run")


def cancel_question(run: RunView) -> Question:
    started = [move for move in run.moves if move.state in IN_FLIGHT]
    queued = sum(move.state is MoveStatus.QUEUED for move in run.moves)
    lost = sum(move.moved_bytes for move in started)
    return Question(
        (
            f"{len(started):,} in flight go back to their replicas, in the order they had; "
            f"{format_bytes(lost)} that were copied are dropped.",
            f"{queued} queued are not begun.",
            f"{run.done} done stay where they are: R rolls them back.",
            "Throttles return to what they were.",
        )
    )


def roll_back_dialog(run: RunView) -> ConfirmByNameDialog:
    """Return the question before a run is rolled back."""
    title, ask = f"Roll run {run.run} back?", follow_run(run, roll_back_question)
    return ConfirmByNameDialog(title, ask, name=run.cluster_name, yes="Roll back")


def roll_back_question(run: RunView) -> Question:
    started = sum(move.state in IN_FLIGHT for move in run.moves)
    done = [move for move in run.moves if move.state is MoveStatus.DONE]
    back = format_bytes(sum(move.total_bytes or 0 for move in done))
    if any(move.total_bytes is None for move in done):
        back = f"at least {back}"
    words = (
        f"{len(done):,} done move back to where they were: {back} to copy again.",
        f"{started} in flight go back at once, in the order they had.",
        "Queued ones are not begun. It takes the same throttle.",
    )
    if run.state is RunStatus.ROLLING_BACK:
        return Question(words, {"yes": "The run is being rolled back already."})
    if all(move.state is MoveStatus.QUEUED for move in run.moves):
        why = "It has moved nothing yet: there is nothing to roll back. C cancels it."
        return Question(words, {"yes": why})
    return Question(words)


def cancel_some_dialog(run: RunView, chosen: Sequence[int]) -> ConfirmDialog:
    """Return the question before some moves of a run are cancelled, the run going on."""

    def question(run: RunView) -> Question:
        return cancel_some_question([run.moves[index] for index in chosen])

    moves = [run.moves[index] for index in chosen]
    return ConfirmDialog(
        f"Cancel {moves_words(moves)}?",
        follow_run(run, question),
        no="Keep going",
        yes="Cancel this move" if len(moves) == 1 else f"Cancel {len(moves):,} moves",
    )


def cancel_some_question(moves: Sequence[MoveProgress]) -> Question:
    """Return what is asked about these; those that have ended since are left out."""
    left = [move for move in moves if move.state in DUE]
    started = [move for move in left if move.state in IN_FLIGHT]
    words = []
    if len(moves) == 1 and started:
        words.append(
            f"It goes back to {id_list(moves[0].before)}, in that order; "
            f"{format_bytes(moves[0].moved_bytes)} that were copied are dropped."
        )
    elif started:
        lost = format_bytes(sum(move.moved_bytes for move in started))
        words.append(
            f"{len(started):,} in flight go back to their replicas, in the order they had; "
            f"{lost} that were copied are dropped."
        )
    if rest := len(left) - len(started):
        words.append("It is not begun." if len(moves) == 1 else f"{rest} queued are not begun.")
    if (ended := len(moves) - len(left)) and left:
        words.append(f"{ended} of them ended meanwhile: left as they are.")
    words.append("The run goes on with the others.")
    if not left:
        has = "It has" if len(moves) == 1 else "All of them have"
        return Question(words, {"yes": f"{has} ended meanwhile."})
    return Question(words)


def recover_dialog(run: RunView) -> ConfirmDialog:
    """Return the question before a dead run's process is brought back."""
    title, ask = f"Bring run {run.run} back?", follow_run(run, recover_question)
    return ConfirmDialog(title, ask, no="Leave it", yes="Bring it back")


def recover_question(run: RunView) -> Question:
    in_flight = len(run.leftovers.moves) if run.leftovers else 0
    words = (
        "Another process reads its journal, looks at the cluster, and goes on from there.",
        f"{in_flight} were in flight as it died; throttles are put back as its moves end.",
    )
    back = run.state is not RunStatus.DIED
    return Question(words, {"yes": "Its process is there again."} if back else {})


def moves_words(moves: Sequence[MoveProgress]) -> str:
    """Return one move's partition, or how many there are."""
    return str(moves[0].tp) if len(moves) == 1 else f"{len(moves):,} moves"
