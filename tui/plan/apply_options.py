"""Options of the Apply dialog: adaptive or lower rates, elections, checks to allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.plan.checks.catalogue import Finding, Severity
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.estimate.estimate import Estimate, estimate_per_side, estimate_task
from core.plan.estimate.estimate_text import format_per_side_rates
from core.plan.estimate.uncertainty import Task
from core.plan.impact.clients import count_elected, count_waiting_for_election
from core.plan.plan import Plan
from core.run.journal.rates import RateBounds
from core.run.throttles.adaptive_rate import usual_bounds
from core.units import UNLIMITED, counted, format_duration
from tui.dialogs.base import Words
from tui.dialogs.inputs import Tick
from tui.plan.assessment import Picture, PlanAssessment, assess_plan
from tui.plan.drawing.throttle_table import bounds_words


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


@dataclass(frozen=True, eq=False, slots=True)
class AssessedOrder:
    """A plan assessed against a picture; `bounds` suit an adaptive rate, `sparing` lowers rates."""

    picture: Picture
    assessment: PlanAssessment
    bounds: RateBounds
    sparing: Estimate | None


def assess_order(
    order: PlanToApply,
    picture: Picture,
    rate_bytes_per_s: int,
    calibration: Calibration | None,
    spared: Estimate | None,
    *,
    fixed: bool,
    go_on: Callable[[], None],
) -> AssessedOrder:
    """Return what applying a plan comes to at a rate, or at the one proposed unless it is `fixed`.

    `spared` is the estimate with the lower rates that are chosen, None while none are.
    """
    (state, load), plan, learned = picture, order.plan, calibration or NOTHING_LEARNED
    bounds = order.bounds or usual_bounds(state, load, plan, rate_bytes_per_s)
    assessment = assess_plan(state, load, plan, rate_bytes_per_s, None, calibration, go_on=go_on)
    proposed = None if fixed else assessment.default_rate_bytes_per_s
    plain = assessment.at(proposed or rate_bytes_per_s).estimate
    if spared is not None:
        task, rates = Task.of(state, load, plan), spared.per_side_rates
        sparing: Estimate | None = estimate_task(
            task, rate_bytes_per_s, learned, per_side_rates=rates
        )
    else:
        sparing = estimate_per_side(state, load, plan, plain, calibration=learned)
    return AssessedOrder(picture, assessment, bounds, sparing)


class AllowCheck(Tick):
    """The findings of one check, that stand in the way until they are allowed by its id."""

    def __init__(self, *findings: Finding) -> None:
        self.finding, self.findings = findings[0], findings
        super().__init__(
            f"allow {self.finding.id}", " ".join(finding.sentence for finding in findings)
        )

    @property
    def subject(self) -> str:
        return self.word

    def renew(self, other: Tick) -> bool:
        """Is not ticked any more once there is something that was not there to be read."""
        assert isinstance(other, AllowCheck)
        super().renew(other)
        more = {finding.about for finding in other.findings} - {
            finding.about for finding in self.findings
        }
        self.finding, self.findings = other.finding, other.findings
        if more and self.ticked:
            self.turn(False)
            return True
        return False


class AdaptRate(Tick):
    """Whether the rate is to adapt itself (`--throttle auto`)."""

    def __init__(self, bounds: RateBounds, *, ticked: bool) -> None:
        super().__init__("adapt the rate", f"{bounds_words(bounds)}, by how long producers wait")
        self.bounds, self.ticked = bounds, ticked

    def renew(self, other: Tick) -> bool:
        """Keep the bounds that were ticked."""
        assert isinstance(other, AdaptRate)
        if not self.ticked:
            self.bounds = other.bounds
            super().renew(other)
        return False


class ElectLeaders(Tick):
    """Whether preferred leaders are elected at the end (`--elect`): who stays leads on without."""

    def __init__(self, leaders: int, *, ticked: bool) -> None:
        change = "changes" if leaders == 1 else "change"
        super().__init__("elect leaders", f"{counted(leaders, 'leader')} {change} at the end")
        self.ticked = ticked


class PauseIfRemoved(Tick):
    """Whether the run pauses when its throttles are removed (`--if-throttles-removed pause`)."""

    def __init__(self, *, ticked: bool) -> None:
        super().__init__("pause if throttles are removed", "else moves wait to hold the rate")
        self.ticked = ticked


class SpareBrokers(Tick):
    """Whether brokers that need less of the rate are to get less (`--within` does that, too)."""

    def __init__(self, estimate: Estimate) -> None:
        takes = format_duration(estimate.seconds)
        super().__init__(
            "spare brokers",
            f"{format_per_side_rates(estimate.per_side_rates)} Then it takes {takes}.",
        )
        self.estimate = estimate

    def renew(self, other: Tick) -> bool:
        """Take another time; rates that were ticked stay those that were read."""
        assert isinstance(other, SpareBrokers)
        if not self.ticked or other.estimate.per_side_rates == self.estimate.per_side_rates:
            self.estimate = other.estimate
            super().renew(other)
        return False


class ApplyOptions(Words):
    """The boxes. Those that stay are the same widgets: nothing ticked or focused is lost."""

    async def show(self, ticks: Sequence[Tick]) -> list[str]:
        """Show these boxes; return the words of those that this left unticked."""
        boxes = {tick.subject: tick for tick in ticks}
        there = {tick.subject: tick for tick in self.query(Tick)}
        unticked = []
        for key, tick in there.items():
            if key not in boxes:
                if tick.has_focus:
                    self.screen.query_one("#name").focus()
                await tick.remove()
            elif tick.renew(boxes[key]):
                unticked.append(tick.word)
        for at, (key, tick) in enumerate(boxes.items()):
            if key not in there:
                await self.mount(tick, before=at if at < len(self.children) else None)
        return unticked

    def exclude_other_rate(self, turned: Tick) -> None:
        """Untick the other way to choose rates: one that adapts itself is each broker's own."""
        if turned.ticked and isinstance(turned, AdaptRate | SpareBrokers):
            for other in self.query(Tick):
                if isinstance(other, AdaptRate | SpareBrokers) and other is not turned:
                    other.turn(False)

    @property
    def bounds(self) -> RateBounds | None:
        """Return what the rate is to adapt itself between, None for a fixed one."""
        return next((adapt.bounds for adapt in self.query(AdaptRate) if adapt.ticked), None)

    @property
    def sparing(self) -> Estimate | None:
        """Return the estimate with lower rates of some sides, None where all get the same."""
        return next((spare.estimate for spare in self.query(SpareBrokers) if spare.ticked), None)

    def is_ticked(self, kind: type[Tick]) -> bool:
        return any(tick.ticked for tick in self.query(kind))

    @property
    def allowed(self) -> frozenset[str]:
        """Return the ids of the checks that are allowed to speak against the plan."""
        return frozenset(allow.finding.id for allow in self.query(AllowCheck) if allow.ticked)


def ticks_of(
    order: PlanToApply, assessed: AssessedOrder, rate_bytes_per_s: int, expected_bytes_per_s: int
) -> list[Tick]:
    """Return the boxes for an order; at the rate to reckon with something else may be unsafe."""
    state, sparing = assessed.picture[0], assessed.sparing
    copies = any(move.receiving for move in order.plan)
    ticks: list[Tick] = []
    if copies:
        ticks.append(AdaptRate(assessed.bounds, ticked=order.bounds is not None))
    if sparing and sparing.rate_bytes_per_s == rate_bytes_per_s and sparing.per_side_rates:
        ticks.append(SpareBrokers(sparing))
    elected = count_elected(state, order.plan)
    # Where some leaders change by an election only, or did before.
    if count_waiting_for_election(state, order.plan) or (order.elect and elected):
        ticks.append(ElectLeaders(elected, ticked=order.elect is not False))
    if copies and expected_bytes_per_s != UNLIMITED:
        ticks.append(PauseIfRemoved(ticked=order.pause_if_removed))
    unsafe: dict[str, list[Finding]] = {}
    for finding in assessed.assessment.at(expected_bytes_per_s).findings:
        if finding.severity is Severity.UNSAFE:
            unsafe.setdefault(finding.id, []).append(finding)
    return [*ticks, *(AllowCheck(*findings) for findings in unsafe.values())]
