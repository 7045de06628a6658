"""What a run may be asked for from the dashboard: each key asks, if it must, and writes a request.

Nothing here changes the cluster: the run's process takes requests up, now or when it is back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from textual.message import Message

from core.errors import TrimtabError
from core.run.control import request
from core.run.journal.rates import RateBounds
from core.run.launch import recover
from core.run.reporting.views import DUE, MoveStatus, RunStatus, RunView
from core.units import format_rate
from tui.moves.drawing.status import accepts_requests, is_paused
from tui.moves.questions import (
    cancel_dialog,
    cancel_some_dialog,
    current_run,
    moves_words,
    pause_dialog,
    recover_dialog,
    roll_back_dialog,
)
from tui.moves.rate_dialog import RateDialog
from tui.moves.retarget_dialog import RetargetDialog, targets_of
from tui.plan.drawing.throttle_table import bounds_words
from tui.screen.app_base import guarded
from tui.screen.base import DashboardScreen

RETRIABLE = (MoveStatus.FAILED, MoveStatus.CANCELLED, MoveStatus.SKIPPED)


class RunRequests(DashboardScreen):
    """The part of the Moves that asks; the screen says which run, and which move, is meant."""

    class Answered(Message):
        """A worker has something to say: what was asked, or why it could not be."""

        def __init__(self, text: str, role: str) -> None:
            super().__init__()
            self.text, self.role = text, role

    def __init__(self) -> None:
        super().__init__()
        self.marked: set[int] = set()
        """Indices of the moves that are meant together."""

    @property
    @abstractmethod
    def shown(self) -> RunView | None:
        """Return the run on the screen."""

    @property
    @abstractmethod
    def selected(self) -> int | None:
        """Return the index of the move under the cursor."""

    @abstractmethod
    def step(self, rows: int) -> None:
        """Move the cursor."""

    # -- the actions -----------------------------------------------------------------------------

    def action_pause_run(self) -> None:
        run = self._askable()
        if run is None:
            return
        if is_paused(run):
            self._ask(run, "resume", {}, "to go on")
            return

        def answered(floor: bool | None) -> None:
            if floor is not None:
                held = "pause, holding what is in flight" if floor else "pause"
                self._ask(run, "pause", {"floor": floor}, f"to {held}")

        self.app.push_screen(pause_dialog(run), answered)

    def action_faster(self) -> None:
        self._rate(1)

    def action_slower(self) -> None:
        self._rate(-1)

    def _rate(self, step: int) -> None:
        run, state, load = self._askable(), self.session.state, self.session.load
        if run is None or state is None or load is None:
            return

        def answered(rate: int | RateBounds | None) -> None:
            if isinstance(rate, RateBounds):
                words = f"for an adaptive rate, {bounds_words(rate)}"
                self._ask(run, "throttle", {"auto": rate.to_json()}, words)
            elif rate is not None:
                words = f"for {format_rate(rate)} a side"
                self._ask(run, "throttle", {"rate_bytes_per_s": rate}, words)

        self.app.push_screen(RateDialog(run, state, load, step), answered)

    def action_cancel_run(self) -> None:
        run = self._askable()
        if run is not None:
            self._sure(cancel_dialog(run), run, "cancel", {"moves": None}, "to cancel")

    def action_roll_back(self) -> None:
        run = self._askable()
        if run is not None:
            self._sure(roll_back_dialog(run), run, "rollback", {}, "to roll back")

    def action_mark_move(self) -> None:
        """Mark the move under the cursor, or not any more; the cursor goes on to the next."""
        index = self.selected
        if index is None:
            self.say("Which move? Esc leads back to them.")
            return
        self.marked ^= {index}
        self.step(1)

    def action_cancel_one(self) -> None:
        found = self._askable_moves(DUE, "cannot be cancelled: it has ended already")
        if found is not None:
            run, chosen = found

            def answered(yes: bool | None) -> None:
                if yes:
                    moves = current_run(self.session, run).moves
                    left = [index for index in chosen if moves[index].state in DUE]
                    words = f"to cancel {moves_words([moves[index] for index in left])}"
                    self._ask(run, "cancel", {"moves": left}, words)

            self.app.push_screen(cancel_some_dialog(run, chosen), answered)

    def action_skip_move(self) -> None:
        found = self._askable_moves((MoveStatus.QUEUED,), "cannot be skipped: it has begun already")
        if found is not None:
            run, chosen = found
            words = f"to skip {moves_words([run.moves[index] for index in chosen])}"
            self._ask(run, "skip", {"moves": chosen}, words)

    def action_retry_move(self) -> None:
        found = self._askable_moves(RETRIABLE, "has neither failed nor been left out")
        if found is not None:
            run, chosen = found
            words = f"to try {moves_words([run.moves[index] for index in chosen])} again"
            self._ask(run, "retry", {"moves": chosen}, words)

    def action_retarget_move(self) -> None:
        found = self._askable_moves((*DUE, *RETRIABLE), "has moved already: make another plan")
        state, load = self.session.state, self.session.load
        if found is None or state is None or load is None:
            return
        run, chosen = found
        targets = targets_of(state, load, {index: run.moves[index] for index in chosen})
        if not targets.moves:
            name = run.moves[chosen[0]].tp
            self.say(f"{name} only changes its order: it has no destination.", "look")
            return

        def answered(broker: int | None) -> None:
            if broker is not None:
                newest = dialog.targets
                asks = [("retarget", newest.request(index, broker)) for index in newest.moves]
                words = f"to move {moves_words(list(newest.moves.values()))} to b{broker}"
                self._ask_all(run, asks, words)

        dialog = RetargetDialog(run.run, targets, (state, load))
        self.app.push_screen(dialog, answered)

    def action_recover_run(self) -> None:
        run = self.shown
        if run is None:
            self._say_no_run()
        elif run.state is not RunStatus.DIED:
            self.say("Its process is there: nothing to bring back.")
        elif self._may_write():

            def back() -> tuple[str, str]:
                recover(run.cluster_id, run.run, address=self.session.address)
                return f"The process of run {run.run} is back.", "fine"

            def answered(yes: bool | None) -> None:
                if yes and self._may_write():
                    self.say("bringing it back")
                    self._work(back)

            self.app.push_screen(recover_dialog(run), answered)

    # -- small helps -----------------------------------------------------------------------------

    def _may_write(self) -> bool:
        if why := self.session.read_only_words:
            self.say(why, "look")
        return not why

    def _say_no_run(self) -> None:
        """Say that there is no run, or that this is not known yet."""
        session = self.session
        if session.run is None and session.address is not None and not session.runs_known:
            self.say("The runs of this cluster are being looked for.", "look")
        else:
            self.say("No run is in progress: nothing to ask of it.")

    def _askable(self) -> RunView | None:
        """Return the run on the screen if it may be asked for something; else say why not."""
        run = self.shown
        if run is None:
            self._say_no_run()
            return None
        if not accepts_requests(run):
            self.say(f"Run {run.run} has ended: nothing to ask of it.")
            return None
        return run if self._may_write() else None

    def _askable_moves(
        self, states: tuple[MoveStatus, ...], otherwise: str
    ) -> tuple[RunView, list[int]] | None:
        """Return the run and which moves are meant: those marked, else the one under the cursor.

        What cannot be asked of some of the marked ones is asked of the others.
        """
        run, index = self._askable(), self.selected
        if run is None:
            return None
        if index is None:
            self.say("Which move? Esc leads back to them.")
            return None
        meant = sorted(self.marked) or [index]
        chosen = [i for i in meant if run.moves[i].state in states]
        if not chosen:
            one = len(meant) == 1
            which = str(run.moves[meant[0]].tp) if one else f"Of the {len(meant)} marked, each"
            self.say(f"{which} {otherwise}.", "look")
            return None
        return run, chosen

    def _sure(
        self, dialog: Any, run: RunView, kind: str, payload: Mapping[str, Any], words: str
    ) -> None:
        self.app.push_screen(
            dialog, lambda yes: self._ask(run, kind, payload, words) if yes else None
        )

    def _ask(self, run: RunView, kind: str, payload: Mapping[str, Any], words: str) -> None:
        self._ask_all(run, [(kind, payload)], words)

    def _ask_all(
        self, run: RunView, asks: Sequence[tuple[str, Mapping[str, Any]]], words: str
    ) -> None:
        if not self._may_write():  # it may have become so while it was asked
            return
        if any(payload.keys() & {"move", "moves"} for _, payload in asks):
            self.marked = set()

        def asked() -> tuple[str, str]:
            waits = [request(run.cluster_id, run.run, kind, p).is_waiting for kind, p in asks]
            if any(waits):
                return f"Asked {words}: it waits until the process is back (B).", "look"
            return f"Asked {words}: it is taken up at once.", "fine"

        self._work(asked)

    def _work(self, call: Callable[[], tuple[str, str]]) -> None:
        """Have a worker do what may take a while, and say what came of it."""

        def work() -> None:
            answer = guarded(call)
            if isinstance(answer, TrimtabError):
                words = (part for part in (answer.title, answer.next) if part)
                answer = " ".join(words), "act"
            text, role = answer
            self.post_message(self.Answered(text, role))

        self.run_worker(work, thread=True, group="request")

    def on_run_requests_answered(self, message: Answered) -> None:
        self.say(message.text, message.role)
