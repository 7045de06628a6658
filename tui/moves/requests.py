"""What the Moves ask for: of a run in progress by requests, of an ended one by another run.

Nothing here changes the cluster: a run's process takes requests up, now or when it is back, and
what follows an ended run is applied like any other plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.run.control import request
from core.run.journal.rates import RateBounds
from core.run.recovery import recover
from core.run.reporting.runs import read_journal
from core.run.reporting.views import DUE, MoveStatus, RunStatus, RunView
from core.run.retry_rollback import FollowUp, plan_followup
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
from tui.moves.view import RETRIABLE
from tui.plan.apply import ApplyDialog
from tui.plan.apply_options import PlanToApply
from tui.plan.drawing.throttle_table import bounds_words
from tui.screen.base import DashboardScreen
from tui.session import Session


class RunRequests:
    """Asks its user, if it must, and then the run.

    `meant` are indices of a run's moves; `unmark` is called once they have been asked about,
    `started` with the run that follows an ended one.
    """

    def __init__(
        self,
        screen: DashboardScreen,
        *,
        unmark: Callable[[], None],
        started: Callable[[str], None],
    ) -> None:
        self._screen, self._unmark, self._started = screen, unmark, started

    @property
    def _session(self) -> Session:
        return self._screen.session

    # -- a run in progress -----------------------------------------------------------------------

    def pause(self, run: RunView | None) -> None:
        """Pause a run after asking how far, or let a paused one go on."""
        if not self._can_ask(run):
            return
        if is_paused(run):
            self._ask(run, "resume", {}, "to go on")
            return

        def answered(floor: bool | None) -> None:
            if floor is not None:
                held = "pause, holding what is in flight" if floor else "pause"
                self._ask(run, "pause", {"floor": floor}, f"to {held}")

        self._screen.app.push_screen(pause_dialog(run), answered)

    def change_rate(self, run: RunView | None, step: int) -> None:
        """Choose another rate, at first the next one up (1) or down (-1)."""
        state, load = self._session.state, self._session.load
        if not self._can_ask(run) or state is None or load is None:
            return

        def answered(rate: int | RateBounds | None) -> None:
            if isinstance(rate, RateBounds):
                words = f"for an adaptive rate, {bounds_words(rate)}"
                self._ask(run, "throttle", {"auto": rate.to_json()}, words)
            elif rate is not None:
                words = f"for {format_rate(rate)} a side"
                self._ask(run, "throttle", {"rate_bytes_per_s": rate}, words)

        self._screen.app.push_screen(RateDialog(run, state, load, step), answered)

    def cancel(self, run: RunView | None) -> None:
        if self._can_ask(run):
            self._submit_if_sure(cancel_dialog(run), run, "cancel", {"moves": None}, "to cancel")

    def roll_back(self, run: RunView | None) -> None:
        if self._can_ask(run):
            self._submit_if_sure(roll_back_dialog(run), run, "rollback", {}, "to roll back")

    def cancel_moves(self, run: RunView | None, meant: Sequence[int]) -> None:
        otherwise = "cannot be cancelled: it has ended already"
        if not self._can_ask(run) or not (chosen := self._choose(run, meant, DUE, otherwise)):
            return

        def answered(yes: bool | None) -> None:
            if yes:
                moves = current_run(self._session, run).moves
                left = [index for index in chosen if moves[index].state in DUE]
                words = f"to cancel {moves_words([moves[index] for index in left])}"
                self._ask(run, "cancel", {"moves": left}, words)

        self._screen.app.push_screen(cancel_some_dialog(run, chosen), answered)

    def skip_moves(self, run: RunView | None, meant: Sequence[int]) -> None:
        otherwise = "cannot be skipped: it has begun already"
        self._submit_for_moves(run, meant, (MoveStatus.QUEUED,), otherwise, "skip", "to skip {}")

    def retry_moves(self, run: RunView | None, meant: Sequence[int]) -> None:
        otherwise = "has neither failed nor been left out"
        self._submit_for_moves(run, meant, RETRIABLE, otherwise, "retry", "to try {} again")

    def retarget_moves(self, run: RunView | None, meant: Sequence[int]) -> None:
        """Choose another destination for what has not moved yet."""
        states, otherwise = (*DUE, *RETRIABLE), "has moved already: make another plan"
        if not self._can_ask(run) or not (chosen := self._choose(run, meant, states, otherwise)):
            return
        state, load = self._session.state, self._session.load
        if state is None or load is None:
            return
        targets = targets_of(state, load, {index: run.moves[index] for index in chosen})
        if not targets.moves:
            name = run.moves[chosen[0]].tp
            self._screen.say(f"{name} only changes its order: it has no destination.", "look")
            return

        def answered(broker: int | None) -> None:
            if broker is not None:
                newest = dialog.targets
                asks = [("retarget", newest.request(index, broker)) for index in newest.moves]
                words = f"to move {moves_words(list(newest.moves.values()))} to b{broker}"
                self._submit_requests(run, asks, words)

        dialog = RetargetDialog(run.run, targets, (state, load))
        self._screen.app.push_screen(dialog, answered)

    # -- a run whose process has died, or that has ended -----------------------------------------

    def recover(self, run: RunView | None) -> None:
        """Bring the process of a run back, after asking."""
        if run is None:
            self._say_no_run()
        elif run.state is not RunStatus.DIED:
            self._screen.say("Its process is there: nothing to bring back.")
        elif self._may_write():

            def back() -> tuple[str, str]:
                recover(run.cluster_id, run.run, address=self._session.address)
                return f"The process of run {run.run} is back.", "fine"

            def answered(yes: bool | None) -> None:
                if yes and self._may_write():
                    self._screen.say("bringing it back")
                    self._work(back)

            self._screen.app.push_screen(recover_dialog(run), answered)

    def follow_up(self, run: str, way: FollowUp, only: Collection[TopicPartition] = ()) -> None:
        """Make the plan that follows an ended run, of `only` or of all, and ask for a yes."""
        session = self._session
        if not self._may_write():
            return
        if session.run is not None and not session.run.state.ended:
            busy = f"Run {session.run.run} is in progress: wait for its end, or cancel it."
            self._screen.say(busy, "look")
            return
        if (state := session.state) is None or session.load is None or session.address is None:
            return
        plan = partial(_followup_to_apply, state, session.cluster_name, run, way, only)
        self._screen.dashboard.run_in_background("again", plan, self._apply)

    def _apply(self, order: PlanToApply | str | TrimtabError) -> None:
        if isinstance(order, PlanToApply):
            dialog = ApplyDialog(self._session, order)
            self._screen.app.push_screen(dialog, lambda run: self._started(run) if run else None)
        else:
            self._screen.say(order.title if isinstance(order, TrimtabError) else order, "look")

    def _may_write(self) -> bool:
        if why := self._session.read_only_words:
            self._screen.say(why, "look")
        return not why

    def _say_no_run(self) -> None:
        session = self._session
        if session.run is None and session.address is not None and not session.runs_known:
            self._screen.say("The runs of this cluster are being looked for.", "look")
        else:
            self._screen.say("No run is in progress: nothing to ask of it.")

    def _can_ask(self, run: RunView | None) -> TypeGuard[RunView]:
        """Return whether a run may be asked for something; where it may not, say why."""
        if run is None:
            self._say_no_run()
            return False
        if not accepts_requests(run):
            self._screen.say(f"Run {run.run} has ended: nothing to ask of it.")
            return False
        return self._may_write()

    def _choose(
        self, run: RunView, meant: Sequence[int], states: Collection[MoveStatus], otherwise: str
    ) -> list[int]:
        """Return which of the moves that are meant are in these states; if none is, say so."""
        if not meant:
            self._screen.say("Which move? Esc leads back to them.")
            return []
        chosen = [index for index in meant if run.moves[index].state in states]
        if not chosen:
            is_single = len(meant) == 1
            which = (
                str(run.moves[meant[0]].tp) if is_single else f"Of the {len(meant)} marked, each"
            )
            self._screen.say(f"{which} {otherwise}.", "look")
        return chosen

    def _submit_for_moves(
        self,
        run: RunView | None,
        meant: Sequence[int],
        states: Collection[MoveStatus],
        otherwise: str,
        kind: str,
        words: str,
    ) -> None:
        if self._can_ask(run) and (chosen := self._choose(run, meant, states, otherwise)):
            moves = moves_words([run.moves[index] for index in chosen])
            self._ask(run, kind, {"moves": chosen}, words.format(moves))

    def _submit_if_sure(
        self, dialog: Any, run: RunView, kind: str, payload: Mapping[str, Any], words: str
    ) -> None:
        self._screen.app.push_screen(
            dialog, lambda yes: self._ask(run, kind, payload, words) if yes else None
        )

    def _ask(self, run: RunView, kind: str, payload: Mapping[str, Any], words: str) -> None:
        self._submit_requests(run, [(kind, payload)], words)

    def _submit_requests(
        self, run: RunView, asks: Sequence[tuple[str, Mapping[str, Any]]], words: str
    ) -> None:
        if not self._may_write():  # it may have become so while it was asked
            return
        if any(payload.keys() & {"move", "moves"} for _, payload in asks):
            self._unmark()

        def send() -> tuple[str, str]:
            waiting = [request(run.cluster_id, run.run, kind, p).is_waiting for kind, p in asks]
            if any(waiting):
                return f"Asked {words}: it waits until the process is back (B).", "look"
            return f"Asked {words}: it is taken up at once.", "fine"

        self._work(send)

    def _work(self, call: Callable[[], tuple[str, str]]) -> None:
        """Have a thread do what may take a while, and say what came of it."""
        self._screen.dashboard.run_in_background("request", call, self._say)

    def _say(self, answer: tuple[str, str] | TrimtabError) -> None:
        if isinstance(answer, TrimtabError):
            answer = " ".join(part for part in (answer.title, answer.next) if part), "act"
        self._screen.say(*answer)


def _followup_to_apply(
    state: ClusterState, name: str, run: str, way: FollowUp, only: Collection[TopicPartition]
) -> PlanToApply | str:
    """Return the plan that follows a run, from its journal and the newest picture; else why not."""
    history = read_journal(state.cluster_id, run).state
    followup = plan_followup(history, way, state, only)
    if not followup.plan.moves:
        first = f": {followup.left[0]}" if followup.left else ""
        return f"Nothing of it holds any more{first}."
    verb = "Try run {} again" if way is FollowUp.RETRY else "Roll run {} back"
    return PlanToApply(
        followup.plan,
        f"{verb.format(run)} on {name}",
        history.rate_bytes_per_s,
        history.rate_control.bounds,
        tuple(map(str, followup.left)),
        history.elect,
        history.pause_if_removed,
    )
