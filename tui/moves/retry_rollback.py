"""What follows a run that has ended, from the Moves: tried again, or rolled back, by another run.

Its journal and the newest picture make a plan in a worker; that is applied like any other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

from textual.message import Message

from core.cluster.metadata import TopicPartition
from core.errors import TrimtabError
from core.run.reporting.runs import read_journal
from core.run.reporting.views import RunStatus, RunSummary
from core.run.retry_rollback import FollowUp, plan_followup
from tui.moves.drawing.status import accepts_requests
from tui.moves.requests import RETRIABLE, RunRequests
from tui.plan.apply import ApplyDialog
from tui.plan.apply_options import PlanToApply
from tui.screen.app_base import guarded


class FollowupRuns(RunRequests):
    """The part of the Moves that makes an ended run's plan, and asks whether to apply it."""

    class Planned(Message):
        """A worker has made the plan of what is to follow, or knows why there is none."""

        def __init__(self, order: PlanToApply | None, why: str = "") -> None:
            super().__init__()
            self.order, self.why = order, why

    @property
    @abstractmethod
    def listed(self) -> RunSummary | None:
        """Return the run under the cursor of the list; None while no list is shown."""

    @abstractmethod
    def started(self, run: str) -> None:
        """Show the run that was started."""

    # -- the actions -----------------------------------------------------------------------------

    @property
    def _ended(self) -> str | None:
        """Return the ended run that is shown, or under the cursor of the list."""
        run, listed = self.shown, self.listed
        if run is not None:
            return None if accepts_requests(run) else run.run
        if listed is None or not listed.state.ended or listed.state is RunStatus.DIED:
            return None
        return listed.run

    def action_retry_move(self) -> None:
        """Queue moves of a run in progress again; one that has ended is tried again as a whole."""
        run, ended = self.shown, self._ended
        if ended is None:
            super().action_retry_move()
        else:
            marked = [run.moves[index].tp for index in self.marked] if run is not None else []
            self.follow_up(ended, FollowUp.RETRY, marked)

    def action_roll_back(self) -> None:
        ended = self._ended
        if ended is None:
            super().action_roll_back()
        else:
            self.follow_up(ended, FollowUp.ROLLBACK)

    def following_words(self, *, moving: bool) -> dict[str, str]:
        """Return the footer's words for trying again and rolling back, where there is what to.

        `moving` says whether the moves of a run are shown.
        """
        run, listed = self.shown, self.listed
        if run is not None and accepts_requests(run):
            meant = self.marked or {self.selected} - {None}
            retriable = any(run.moves[i].state in RETRIABLE for i in meant if i is not None)
            return {
                "retry_move": "try again" if retriable else "",
                "roll_back": "roll back…" if moving else "",
            }
        undone = away = 0
        if run is not None:
            undone, away = run.undone, run.moved_away
        elif listed is not None and self._ended is not None:
            undone, away = listed.moves - listed.done, listed.moved_away
        return {
            "retry_move": "try again…" if undone else "",
            "roll_back": "roll back…" if away else "",
        }

    # -- the plan --------------------------------------------------------------------------------

    def follow_up(self, run: str, way: FollowUp, only: Collection[TopicPartition] = ()) -> None:
        """Make the plan that follows an ended run, of `only` or of all, and ask for a yes."""
        session = self.session
        if why := session.read_only_words:
            self.say(why, "look")
            return
        if session.run is not None and not session.run.state.ended:
            busy = f"Run {session.run.run} is in progress: wait for its end, or cancel it."
            self.say(busy, "look")
            return
        state = session.state
        if state is None or session.load is None or session.address is None:
            return

        def planned() -> FollowupRuns.Planned:
            history = read_journal(state.cluster_id, run).state
            found = plan_followup(history, way, state, only)
            if not found.plan.moves:
                first = f": {found.left[0]}" if found.left else ""
                return self.Planned(None, f"Nothing of it holds any more{first}.")
            verb = "Try run {} again" if way is FollowUp.RETRY else "Roll run {} back"
            order = PlanToApply(
                found.plan,
                f"{verb.format(run)} on {session.cluster_name}",
                history.rate_bytes_per_s,
                history.rate_control.bounds,
                tuple(map(str, found.left)),
                history.elect,
                history.pause_if_removed,
            )
            return self.Planned(order)

        def work() -> None:
            answer = guarded(planned)
            if isinstance(answer, TrimtabError):
                answer = self.Planned(None, answer.title)
            self.post_message(answer)

        self.run_worker(work, thread=True, exclusive=True, group="again")

    def on_followup_runs_planned(self, message: Planned) -> None:
        if message.order is None:
            self.say(message.why, "look")
            return

        def answered(run: str | None) -> None:
            if run is not None:
                self.started(run)

        self.app.push_screen(ApplyDialog(self.session, message.order), answered)
