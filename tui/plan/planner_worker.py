"""Suggests a whole plan: the form, the planner in a thread, its result as one edit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from textual.timer import Timer

from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.load.load import Load
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.rate_table import estimate_plan_time
from core.plan.plan import Plan
from core.plan.planner.plan_result import explain_no_plan
from core.plan.planner.planner import suggest_plan
from core.plan.rebase import rebase
from core.units import format_duration
from tui.plan.suggest_dialog import SuggestDialog
from tui.plan.suggest_form import NAMES, SuggestForm, SuggestRequest
from tui.plan.suggested_plan import SuggestedPlan
from tui.screen.base import DashboardScreen


@dataclass(frozen=True, eq=False, slots=True)
class PlannerTask:
    """A plan that a thread is making since `began` (monotonic seconds)."""

    request: SuggestRequest
    began: float
    stopped: threading.Event = field(default_factory=threading.Event)


class PlannerWorker:
    """Has plans made for the Plan screen, one at a time."""

    def __init__(self, screen: DashboardScreen, on_planned: Callable[[], None]) -> None:
        """`on_planned` is called once another plan is edited than before."""
        self._screen, self._on_planned = screen, on_planned
        self.form = SuggestForm()
        """What a plan was asked for with the last time."""
        self.suggested: SuggestedPlan | None = None
        """The plan that was suggested last; the one being edited may have gone on from it."""
        self._making: PlannerTask | None = None
        self._ticks: Timer | None = None

    @property
    def words(self) -> str:
        """Return what is being done, and for how long; empty when nothing is."""
        if self._making is None:
            return ""
        seconds = int(self._screen.dashboard.monotonic() - self._making.began)
        return f"making a plan · {seconds} s · esc stops it"

    def ask(self) -> None:
        """Open the form."""
        screen, session = self._screen, self._screen.session
        if session.state is None or session.load is None:
            return
        if self._making is not None:
            screen.say("A plan is being made; esc stops it.")
            return
        broker, topic = session.cursor_at or (None, None)
        screen.app.push_screen(
            SuggestDialog(self.form, session.state, session.plan, broker, topic), self._answered
        )

    def _answered(self, answer: tuple[SuggestForm, SuggestRequest] | None) -> None:
        screen, session = self._screen, self._screen.session
        if answer is None or session.state is None or session.load is None:
            return
        self.form, request = answer
        making = self._making = PlannerTask(request, screen.dashboard.monotonic())
        session.making_plan = True
        known = session.calibration or NOTHING_LEARNED
        work = partial(run_planner, making, session.state, session.load, known)
        screen.dashboard.run_in_background("planning", work, partial(self._take, making))
        self._ticks = screen.set_interval(1.0, self._tick)
        screen.show(session)

    def _tick(self) -> None:
        if self._screen.app.screen is self._screen:
            self._screen.show(self._screen.session)

    def stop(self) -> None:
        """Stop the plan that is being made; nothing changes."""
        if self._making is not None:
            self._making.stopped.set()
            self._end()
            self._screen.show(self._screen.session)
            self._screen.say("Stopped: the plan is as it was.")

    def _end(self) -> None:
        self._making, self._screen.session.making_plan = None, False
        if self._ticks is not None:
            self._ticks.stop()
            self._ticks = None

    def _take(
        self, making: PlannerTask, done: tuple[SuggestedPlan, Estimate | None] | TrimtabError
    ) -> None:
        if making is not self._making:
            return
        self._end()
        screen, session = self._screen, self._screen.session
        if isinstance(done, TrimtabError):
            session.take_trouble(done)
            screen.show(session)
            screen.say_error(done)
            return
        if session.state is None:
            return
        suggested, estimate = done
        plan_result, goal = suggested.result, suggested.request.goal
        plan = rebase(session.state, plan_result.plan).plan
        left = len(plan_result.plan) - len(plan)
        if not len(plan):
            reached = suggested.reached
            words = [explain_no_plan(plan_result, goal, "", reached=reached)]
            words += () if reached else plan_result.notes[:1]
            screen.say(" ".join(words), "fine" if reached else "look")
            return
        self.suggested = suggested
        if goal.kept:  # as it is now: it can have been edited meanwhile
            planned = session.plan.by_partition
            plan = Plan.of(
                [*session.plan, *(move for move in plan if move.tp not in planned)],
                cluster_id=plan.cluster_id,
            )
        session.edit(plan)
        in_time = None if estimate is None or estimate.never else estimate.recommended_bytes_per_s
        if in_time is not None:
            session.choose_rate(in_time)
        screen.dashboard.draw()
        if left:
            screen.say(f"{left} moves were left out: the cluster has changed meanwhile.", "look")
        elif estimate is not None and estimate.never is not None:
            within = format_duration(making.request.within_seconds)
            screen.say(f"No throttle ends it within {within}; u takes the plan back.", "look")
        elif estimate is not None and estimate.seconds is None:
            why = estimate.note
            screen.say(f"How long it takes is not known. {why} u takes the plan back.", "look")
        else:
            screen.say("The plan is made; u takes it back.", "fine")
        self._on_planned()


def run_planner(
    making: PlannerTask, state: ClusterState, load: Load, known: Calibration
) -> tuple[SuggestedPlan, Estimate | None]:
    """Return what the planner finds before it is stopped; raises UsageError for a contradiction."""
    request = making.request
    limits = replace(request.goal.limits, stop=making.stopped.is_set)
    plan_result = suggest_plan(state, load, replace(request.goal, limits=limits), NAMES)
    estimate = None
    if request.within_seconds is not None and not making.stopped.is_set():
        whole = Plan.of(
            [*request.goal.kept, *plan_result.plan], cluster_id=plan_result.plan.cluster_id
        )
        estimate = estimate_plan_time(state, load, whole, request.within_seconds, known)
    return SuggestedPlan(request, plan_result), estimate
