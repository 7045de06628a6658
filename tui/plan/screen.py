"""The Plan: what would change, what speaks against it, how long it takes at which rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.load.load import Load
from core.plan.estimate.calibration import Calibration
from core.plan.formats.plan_file import format_plan_file
from core.plan.impact.clients import estimate_impact
from core.plan.plan import Plan
from core.plan.planner.evenness import Evenness
from core.plan.rebase import rebase
from tui.actions.action import PLAN
from tui.actions.table import bindings_of
from tui.drawing.page import Page
from tui.drawing.spans import Lines, RowHit
from tui.memoize import memoize_last
from tui.plan.assessment import PlanAssessment, alive, assess_plan, is_similar
from tui.plan.assessment_worker import AssessmentWorker
from tui.plan.drawing.impact import impact_lines
from tui.plan.drawing.page import Pane, PlanView, plan_lines
from tui.plan.drawing.throttle_table import RateHit
from tui.plan.editing import PlanEditing
from tui.plan.planner_worker import PlannerWorker
from tui.plan.suggested_plan import SuggestedPlan, evenness_of, helpful_first
from tui.screen.list_screen import CursorKeys, PageScreen
from tui.session import Session


class AssessedPlan(NamedTuple):
    """An assessment, with brokers before and after; `order` is what helps most first, if any."""

    assessment: PlanAssessment
    even: Evenness
    order: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """What an assessment rests on beside its plan and rate."""

    state: ClusterState
    load: Load
    suggested: SuggestedPlan | None
    calibration: Calibration | None
    groups: Sequence[DocumentGroup] | None


class PlanScreen(CursorKeys, PlanEditing, PageScreen):
    """Diff, checks, throttle table and impact of the plan being edited."""

    PLACE = PLAN
    BINDINGS = bindings_of(PLAN)

    def __init__(self) -> None:
        super().__init__()
        self._cursor = 0
        self._pane = Pane.MOVES
        self._broker = 0
        self._top = 0
        self.planner = PlannerWorker(self, self._show_suggested_plan)
        self._assessment: PlanAssessment | None = None
        self._even: Evenness | None = None
        self._helpful: tuple[TopicPartition, ...] | None = None
        self._assessing = AssessmentWorker(self, self._take_assessment, self._assessment_failed)
        self._basis: Basis | None = None
        """What the assessment rests on that was begun last."""
        self._requested: tuple[Plan, int] | None = None
        """The plan and rate of that assessment."""
        self._failed: tuple[Plan, int] | None = None
        """What could not be assessed, and at which rate, as things are in `_basis`."""
        self._is_alike = memoize_last(_is_alike)

    # -- drawing ---------------------------------------------------------------------------------

    def lines(self, session: Session, width: int, height: int) -> Lines:
        if session.state is None or session.load is None:
            return ()
        self._cursor = min(self._cursor, max(len(session.plan) - 1, 0))
        self._have_assessed(session, session.state, session.load)
        view = PlanView(
            session.state,
            session.plan,
            self._assessment,
            session.rate_bytes_per_s,
            self._order[self._cursor] if len(session.plan) else 0,
            self._pane,
            rate_pending=bool(session.rate_steps),
            even=self._even if self._assessment is not None else None,
            suggested=self.planner.suggested,
            planner=self.planner.words,
            broker=self._broker,
            top=self._top,
            rate_chosen=session.rate_chosen,
            order=None if self._helpful is None else self._order,
        )
        return plan_lines(view, width, height)

    def footer_words(self) -> Mapping[str, str]:
        empty = not len(self.session.plan)
        on_throttle = self._pane is Pane.THROTTLE
        words = {"throttle": "moves" if on_throttle else "throttle", "drop_move": "drop"}
        if empty:
            words |= dict.fromkeys(("throttle", "drop_move", "apply", "brokers", "impact"), "")
        if empty or self._assessment is None or not self._assessment.rebased.changes:
            words["rebase"] = ""
        if self._pane in (Pane.BROKERS, Pane.IMPACT):
            words |= {self._pane.value: "moves", "drop_move": ""}
        if not self.planner.words:
            words["stop"] = ""
        if not self.session.history.undo:
            words["undo"] = ""
        return words

    def _have_assessed(self, session: Session, state: ClusterState, load: Load) -> None:
        """Start an assessment unless this plan and rate have one that holds, or is young enough."""
        plan, rate = session.plan, session.rate_bytes_per_s
        if not len(plan):
            self._assessment = self._helpful = None
            self._assessing.forget()
            return
        if self._assessment is not None and self._assessment.plan.moves != plan.moves:
            self._assessment = None  # what it says is of another plan
        known = self._assessment is not None and rate in self._assessment.rates
        suggested, groups, learned = self.planner.suggested, session.groups, session.calibration
        basis, before = Basis(state, load, suggested, learned, groups), self._basis
        failed = self._failed is not None and self._failed[0] is plan and self._failed[1] == rate
        same = (known or failed) and before is not None and self._is_same_basis(before, basis, plan)
        if same and before is not None and before.groups is groups:
            return
        had = self._assessment if same and not failed else None
        even, order = self._even, self._helpful
        if same and before is not None:
            basis = replace(before, groups=groups)

        def work(go_on: Callable[[], None]) -> AssessedPlan:
            if had is not None and even is not None:  # lags are read twice a minute
                impact = estimate_impact(state, load, plan, groups)
                return AssessedPlan(replace(had, impact=impact), even, order)
            assessment = assess_plan(state, load, plan, rate, groups, learned, go_on=go_on)
            evenness = evenness_of(state, load, plan, suggested)
            go_on()
            return AssessedPlan(assessment, evenness, helpful_first(state, load, plan, suggested))

        # What is said of a broker that has died since cannot wait for its turn.
        urgent = before is not None and alive(before.state) != alive(state)
        if self._assessing.ask(plan, rate, work, known=known, at_once=urgent):
            self._requested, self._basis = (plan, rate), basis

    def _is_same_basis(self, before: Basis, now: Basis, plan: Plan) -> bool:
        """Return whether an assessment of the plan would come to the same now, groups apart."""
        return (
            before.suggested is now.suggested
            and before.calibration == now.calibration
            and before.load.as_of == now.load.as_of
            and self._is_alike(before.state, before.load, now.state, now.load, plan)
        )

    def _assessment_failed(self, error: TrimtabError) -> None:
        self._failed = self._requested

    def _take_assessment(self, outcome: AssessedPlan) -> None:
        self._failed = None
        if outcome.assessment.plan.moves == self.session.plan.moves:
            self._assessment, self._even, self._helpful = outcome
            self.session.take_rates(
                outcome.assessment.rates, outcome.assessment.default_rate_bytes_per_s
            )
            self.show(self.session)

    @property
    def _order(self) -> tuple[int, ...]:
        """Return the indices of the plan's moves as they are shown; new ones come last."""
        moves = self.session.plan.moves
        if self._helpful is None:
            return tuple(range(len(moves)))
        index = {move.tp: at for at, move in enumerate(moves)}
        known = [at for tp in self._helpful if (at := index.pop(tp, None)) is not None]
        return (*known, *index.values())

    # -- moving about ----------------------------------------------------------------------------

    def _toggle_pane(self, pane: Pane) -> None:
        if len(self.session.plan):
            self._pane, self._top = Pane.MOVES if self._pane is pane else pane, 0
            self.show(self.session)

    def action_throttle(self) -> None:
        self._toggle_pane(Pane.THROTTLE)

    def action_brokers(self) -> None:
        self._toggle_pane(Pane.BROKERS)

    def action_impact(self) -> None:
        self._toggle_pane(Pane.IMPACT)

    def step(self, rows: int) -> None:
        if self._pane is Pane.IMPACT:
            self._scroll(rows)
        elif self._pane is Pane.BROKERS:
            count = len(self._even.brokers) if self._even is not None else 1
            self._broker = min(max(self._broker + rows, 0), count - 1)
            self.show(self.session)
        elif self._pane is Pane.THROTTLE and self._assessment is None:
            self.session.rate_steps += (rows,)
            self.show(self.session)
        elif self._pane is Pane.THROTTLE and self._assessment is not None:
            at = self._assessment.row_of(self.session.rate_bytes_per_s)
            self._choose(min(max(at + rows, 0), len(self._assessment.rows) - 1))
        elif len(self.session.plan):
            self._cursor = min(max(self._cursor + rows, 0), len(self.session.plan) - 1)
            self.show(self.session)

    def _scroll(self, rows: int) -> None:
        if self._assessment is not None:
            room = self.query_one(Page).size
            lines = len(impact_lines(self._assessment.impact, room.width))
            self._top = min(max(self._top + rows, 0), max(lines - room.height, 0))
            self.show(self.session)

    def _choose(self, row: int) -> None:
        if self._assessment is not None and row < len(self._assessment.rows):
            self.session.choose_rate(self._assessment.rates[row])
            self.show(self.session)

    def on_page_hit(self, message: Page.Hit) -> None:
        match message.hit:
            case RowHit(index):
                self._pane, self._cursor = Pane.MOVES, self._order.index(index)
                self.show(self.session)
            case RateHit(index):
                self._pane = Pane.THROTTLE
                self._choose(index)

    def action_suggest(self) -> None:
        self.planner.ask()

    def action_stop(self) -> None:
        if self.planner.words:
            self.planner.stop()
        else:
            self._pane = Pane.MOVES
            self.show(self.session)

    def _show_suggested_plan(self) -> None:
        self._cursor = self._broker = 0
        if self._pane is not Pane.BROKERS:
            self._pane = Pane.MOVES

    def action_drop_move(self) -> None:
        plan = self.session.plan
        if len(plan) and self._pane in (Pane.MOVES, Pane.THROTTLE):
            self.session.edit(plan.without(plan.moves[self._order[self._cursor]].tp))
            self.show(self.session)

    def action_rebase(self) -> None:
        """Put the plan on the newest picture, as one edit."""
        session = self.session
        if session.state is None or not len(session.plan):
            return
        rebased_plan = rebase(session.state, session.plan)
        session.edit(rebased_plan.plan)
        self.dashboard.draw()
        if rebased_plan.lost:
            self.say(
                f"Rebased: {rebased_plan.words}; {rebased_plan.lost[0]}. u takes it back.", "look"
            )
        elif rebased_plan.changes:
            self.say(f"Rebased: {rebased_plan.words}. u takes it back.", "fine")
        else:
            self.say("All of the plan holds as it is.", "fine")

    def copy_text(self) -> str | None:
        """Return the plan as Kafka's reassignment JSON, for the clipboard."""
        return format_plan_file(self.session.plan) if len(self.session.plan) else None


def _is_alike(
    before: ClusterState, load_before: Load, state: ClusterState, load: Load, plan: Plan
) -> bool:
    return is_similar((before, load_before), (state, load), plan)
