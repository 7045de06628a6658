"""What applying a plan comes to, assessed against each new picture; summary and checkboxes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING

from textual.message import Message

from core.errors import TrimtabError
from core.plan.checks.catalogue import Finding, Severity
from core.plan.estimate.calibration import NOTHING_LEARNED
from core.plan.estimate.estimate import Estimate, estimate_per_side, estimate_task
from core.plan.estimate.uncertainty import Task
from core.plan.impact.precautions import count_elected, count_waiting_for_election
from core.plan.plan import Plan
from core.run.journal.rates import RateBounds
from core.run.throttles.adaptive_rate import usual_bounds
from core.units import UNLIMITED
from tui.dialogs.checkboxes import Tick
from tui.dialogs.confirm_name import ClusterNameDialog
from tui.drawing.spans import Lines
from tui.plan.apply_options import AdaptRate, AllowCheck, ElectLeaders, PauseIfRemoved, SpareBrokers
from tui.plan.assessment import PlanAssessment, assess_plan, is_refused
from tui.plan.assessment_diff import Picture, ReviewedPlan, changed
from tui.plan.assessment_worker import AssessmentFailed, AssessmentWorker
from tui.plan.drawing.apply_summary import summary_lines

if TYPE_CHECKING:
    from tui.session import Session

SCROLLBAR = 1
REST_SECONDS = 1.0
"""How long an open dialog rests after an assessment, where that took less than a quarter of it."""


@dataclass(frozen=True, slots=True)
class PlanToApply:
    """A plan to be carried out; with a rate of its own, nothing is proposed over that."""

    plan: Plan
    title: str
    rate_bytes_per_s: int | None = None
    bounds: RateBounds | None = None
    """It is to be adapted between these, as it was before."""
    left: tuple[str, ...] = ()
    """What is not in the plan though it was asked for, and why."""
    elect: bool | None = None
    """Whether preferred leaders were elected before; None where the plan is a new one."""
    pause_if_removed: bool = False
    """It was to pause before when its throttles are removed time and again."""


class PlanReview(ClusterNameDialog[str | None]):
    """A dialog about an order: `#summary` and `#ticks` say what holds for the newest picture.

    Nothing is applied here.
    """

    class Assessed(Message):
        """The plan was assessed against a picture.

        `bounds` would suit an adaptive rate; `sparing` is with lower rates where they will do.
        """

        def __init__(
            self,
            picture: Picture,
            assessment: PlanAssessment,
            bounds: RateBounds,
            sparing: Estimate | None,
        ) -> None:
            super().__init__()
            self.picture, self.assessment, self.bounds, self.sparing = (
                picture,
                assessment,
                bounds,
                sparing,
            )

    def __init__(self, session: Session, order: PlanToApply) -> None:
        super().__init__()
        self._session, self._order = session, order
        self._assessing = AssessmentWorker(self, rest_seconds=REST_SECONDS)
        self._looked_at: Picture | None = None
        """The picture that was last asked to be assessed."""
        self._state, self._load = session.state, session.load
        """What the newest assessment is of."""
        self._assessment: PlanAssessment | None = None
        self._assessed: PlanReview.Assessed | None = None
        self._first: ReviewedPlan | None = None
        """What was read as it was opened."""
        self._drawn: Lines = ()
        self._rate = order.rate_bytes_per_s or session.rate_bytes_per_s
        """What is applied: the rate that the summary shows, whatever is proposed meanwhile."""

    @abstractmethod
    def renewed(self, unticked: list[str]) -> None:
        """Take in another assessment, which left these boxes unticked; called before drawing."""

    @abstractmethod
    def assessment_failed(self, error: TrimtabError) -> None:
        """Say that the newest picture could not be assessed: one that differs will be."""

    @abstractmethod
    def enable(self) -> None:
        """Enable what may be done now."""

    # -- the assessment ----------------------------------------------------------------------------

    def _have_assessed(self, *, at_once: bool = False) -> None:
        session = self._session
        state, load = session.state, session.load
        assert state is not None
        assert load is not None
        plan, rate, known = self._order.plan, self._rate, session.calibration
        proposes = self._order.rate_bytes_per_s is None and self._assessment is None
        fixed = not proposes or session.rate_chosen
        spared = None if self._sparing is None else self._sparing.per_side_rates
        bounds_before = self._order.bounds

        def work(go_on: Callable[[], None]) -> Message:
            bounds = bounds_before or usual_bounds(state, load, plan, rate)
            found = assess_plan(state, load, plan, rate, None, known, go_on=go_on)
            plain = found.estimate((not fixed and found.default_rate_bytes_per_s) or rate)
            learned = known or NOTHING_LEARNED
            sparing: Estimate | None
            if spared is not None:
                sparing = estimate_task(
                    Task.of(state, load, plan), rate, learned, per_side_rates=spared
                )
            else:
                sparing = plain and estimate_per_side(state, load, plan, plain, calibration=learned)
            return self.Assessed((state, load), found, bounds, sparing)

        if self._assessing.ask(plan, rate, self._now, work, known=True, at_once=at_once):
            self._looked_at = state, load

    @property
    def _now(self) -> float:
        return self.dashboard.monotonic()

    def on_assessment_failed(self, message: AssessmentFailed) -> None:
        self._assessing.done(self._now)
        self.assessment_failed(message.error)

    async def on_plan_review_assessed(self, message: Assessed) -> None:
        self._assessing.done(self._now)
        first = self._assessment is None
        (self._state, self._load), self._assessment = message.picture, message.assessment
        self._assessed = message
        if first and self._order.rate_bytes_per_s is None:
            self._session.take_rates(
                message.assessment.rates, message.assessment.default_rate_bytes_per_s
            )
            self._rate = self._session.rate_bytes_per_s
        unticked = await self._put_ticks(message)
        if self._first is None:
            self._first = self._read
        self.renewed(unticked)
        self._draw()

    @property
    def _read(self) -> ReviewedPlan | None:
        """Return what is shown, as far as it is known."""
        if self._assessment is None or self._state is None:
            return None
        return ReviewedPlan(self._state, self._assessment, self._expected)

    # -- the boxes -------------------------------------------------------------------------------

    async def _put_ticks(self, message: Assessed) -> list[str]:
        """Show the boxes of an assessment; return those that it left unticked.

        Boxes that stay are the same widgets, so that nothing that was ticked or focused is lost.
        """
        wanted = {tick.subject: tick for tick in self._ticks_of(message)}
        there = {tick.subject: tick for tick in self.query(Tick)}
        unticked = []
        for key, tick in there.items():
            if key in wanted:
                if tick.renew(wanted[key]):
                    unticked.append(tick.word)
            else:
                if tick.has_focus:
                    self.query_one("#name").focus()
                await tick.remove()
        boxes = self.query_one("#ticks")
        for at, (key, tick) in enumerate(wanted.items()):
            if key not in there:
                await boxes.mount(tick, before=at if at < len(boxes.children) else None)
        return unticked

    def _ticks_of(self, message: Assessed) -> list[Tick]:
        ticks: list[Tick] = []
        if any(move.receiving for move in self._order.plan):
            adapt = AdaptRate(message.bounds)
            adapt.ticked = self._order.bounds is not None
            ticks.append(adapt)
        sparing = message.sparing
        if (
            sparing is not None
            and sparing.rate_bytes_per_s == self._rate
            and sparing.per_side_rates
        ):
            ticks.append(SpareBrokers(sparing))
        ticks += self._elections()
        if any(move.receiving for move in self._order.plan) and self._expected != UNLIMITED:
            ticks.append(PauseIfRemoved(ticked=self._order.pause_if_removed))
        unsafe: dict[str, list[Finding]] = {}
        for finding in message.assessment.findings_at(self._expected):
            if finding.severity is Severity.UNSAFE:
                unsafe.setdefault(finding.id, []).append(finding)
        return [*ticks, *(AllowCheck(*findings) for findings in unsafe.values())]

    def _elections(self) -> list[Tick]:
        """Return the box for electing leaders, where some are to change by that only, or did."""
        state, plan, asked = self._state, self._order.plan, self._order.elect
        if state is None or not (
            count_waiting_for_election(state, plan) or (asked and count_elected(state, plan))
        ):
            return []
        return [ElectLeaders(count_elected(state, plan), ticked=asked is not False)]

    async def on_tick_turned(self, message: Tick.Turned) -> None:
        if message.tick.ticked and isinstance(message.tick, AdaptRate | SpareBrokers):
            for other in self.query(Tick):  # a rate that adapts itself is each broker's own
                if isinstance(other, AdaptRate | SpareBrokers) and other is not message.tick:
                    other.turn(False)
        if self._assessed is not None:  # at another rate something else may stand in the way
            await self._put_ticks(self._assessed)
        self._draw()

    # -- drawing ---------------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        lines = summary_lines(
            self._state,
            self._order.plan,
            self._assessment,
            self._expected,
            self.width - SCROLLBAR,
            bounds=self._bounds,
            left=self._order.left,
            elects=self._elects,
            changed=self._changed,
        )
        if lines != self._drawn:
            self._drawn = lines
            self.put("#summary", lines)
        self.query_one("#ticks").display = bool(self.query(Tick))
        self.share_height()
        self.enable()

    @property
    def _changed(self) -> str:
        """Say what is otherwise than as it was opened; "" while nothing is."""
        first, now = self._first, self._read
        if first is None or now is None:
            return ""
        first = replace(first, rate_bytes_per_s=now.rate_bytes_per_s)
        words = changed(first, now)
        since = f"{first.state.fetched_at.astimezone(UTC):%H:%M}Z"
        return f"since {since}: {'; '.join(words)}" if words else ""

    def share_height(self) -> None:
        """Have summary and ticks scroll rather than push the name and the buttons out of sight."""
        ticks = self.lines(self.query(Tick), self.width - SCROLLBAR)
        gap = 1 if ticks else 0
        ticks = min(ticks, max(self.room // 2, 1))
        self.query_one("#ticks").styles.max_height = ticks
        self.query_one("#about").styles.max_height = max(self.room - ticks - gap, 1)

    # -- what is chosen --------------------------------------------------------------------------

    @property
    def _bounds(self) -> RateBounds | None:
        """Return what the rate is to adapt itself between, None for a fixed one."""
        return next((adapt.bounds for adapt in self.query(AdaptRate) if adapt.ticked), None)

    @property
    def _sparing(self) -> Estimate | None:
        """Return the estimate with lower rates of some sides, None where all get the same."""
        return next((spare.estimate for spare in self.query(SpareBrokers) if spare.ticked), None)

    @property
    def _elects(self) -> bool:
        return any(elect.ticked for elect in self.query(ElectLeaders))

    @property
    def _pauses_if_removed(self) -> bool:
        return any(pause.ticked for pause in self.query(PauseIfRemoved))

    @property
    def _expected(self) -> int:
        """Return the rate to reckon with."""
        bounds = self._bounds
        if bounds is None:
            return self._rate
        most = bounds.max_bytes_per_s
        rate = most if self._rate == UNLIMITED else self._rate
        return min(max(rate, bounds.min_bytes_per_s), most)

    @property
    def _allowed(self) -> frozenset[str]:
        return frozenset(allow.finding.id for allow in self.query(AllowCheck) if allow.allowed)

    @property
    def _is_clear(self) -> bool:
        """Return whether nothing stands in the way, as far as it was assessed."""
        sparing = self._sparing
        if self._assessment is None or (sparing is not None and sparing.never):
            return False
        return not is_refused(self._assessment.findings_at(self._expected), self._allowed)
