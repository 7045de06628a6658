"""Chooses the plan to apply now: the smallest that helps, within the hourly budget. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf

import numpy as np

from core.autopilot.decision import Act, Reason
from core.autopilot.history import Situation
from core.autopilot.observation import (
    MIN_GAIN,
    gained_shares,
    imbalance_of,
    is_outside,
    level_similar,
)
from core.autopilot.settings import AutopilotSettings
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load.load import Load
from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import check_plan
from core.plan.estimate.estimate import Estimate, estimate_at, estimate_within
from core.plan.move_order import order_moves
from core.plan.plan import Move, Plan
from core.plan.planner.evenness import Evenness, evenness
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.planner import suggest_plan
from core.run.journal.rates import RateBounds
from core.run.throttles.adaptive_rate import expected_rate, usual_bounds
from core.units import counted, format_bytes, format_duration


def affordable_part(
    state: ClusterState, load: Load, plan: Plan, *, max_bytes: float, max_moves: int
) -> Plan:
    """Return the moves that fit: what takes most off the worst brokers for its bytes first.

    What is only led elsewhere comes after all that is copied: it can be done in any hour. A part of
    the whole, not a plan of its own for so few bytes, leaves all where it is to stay: what has been
    moved rests, and could not be moved again when the others follow.
    """
    sizes = [_copied_bytes(state, move) for move in plan]
    if sum(sizes) <= max_bytes and len(plan) <= max_moves:
        return plan
    left = max_bytes
    taken: list[Move] = []
    by_relief = order_moves(state, load, plan, sizes)
    for at in sorted(by_relief, key=lambda at: not plan.moves[at].moves_data):
        if len(taken) == max_moves:
            break
        if sizes[at] <= left:
            left -= sizes[at]
            taken.append(plan.moves[at])
    return Plan.of(taken, cluster_id=plan.cluster_id)


def copied_bytes(state: ClusterState, plan: Plan) -> float:
    """Return what brokers copy for a plan of partitions whose sizes are known."""
    return sum((_copied_bytes(state, move) for move in plan), 0.0)


def _copied_bytes(state: ClusterState, move: Move) -> float:
    row = state.find(move.tp)
    size = 0 if row is None else max(int(state.partition_size_bytes[row]), 0)
    return float(len(move.adding) * size)


def estimate_run(situation: Situation, plan: Plan) -> tuple[RateBounds, Estimate]:
    """Return how a run that adapts its rate is bounded, and its estimate; there is a load.

    It is reckoned with the usual rate, or with the one that ends it before hours in which nothing
    is begun, as far as the bounds let it.
    """
    state, load, known = situation.state, situation.load_view.load, situation.observed.known
    bounds = usual_bounds(state, load, plan)
    rate = expected_rate(bounds, state, load, plan, known)
    usual = estimate_at(state, load, plan, rate, calibration=known)
    late, left = lateness(situation, usual)
    if not late:
        return bounds, usual
    max_rate = bounds.max_bytes_per_s
    faster = estimate_within(state, load, plan, left, calibration=known).recommended_bytes_per_s
    rate = max(rate, min(faster or max_rate, max_rate))
    return bounds, estimate_at(state, load, plan, rate, calibration=known)


def lateness(situation: Situation, estimate: Estimate) -> tuple[float, float]:
    """Return how long a run may go on into hours in which nothing is begun, and when they come.

    Seconds, from now. One that never ends, or of which nobody knows when, is not late.
    """
    if estimate.range_seconds is None:
        return 0.0, 0.0
    _, longest = estimate.range_seconds
    left = situation.settings.free_seconds(situation.now, longest)
    return longest - left, left


MAX_SPENT_PART = 0.5
"""The part of an hour's budget beyond which only a whole plan is begun: no run for crumbs."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left of the hour's, and of what there is time for."""

    bytes: float
    moves: int
    is_short: bool
    """Whether too little of the hour's is left for anything but a whole plan."""

    @classmethod
    def left(cls, situation: Situation, max_bytes: float) -> Budget:
        settings = situation.settings
        spent_bytes, spent_moves = situation.history.spent(situation.now)
        bytes_left = settings.max_bytes_per_hour - spent_bytes
        moves_left = settings.max_moves_per_hour - spent_moves
        short = spent_bytes > MAX_SPENT_PART * settings.max_bytes_per_hour
        short = short or spent_moves > MAX_SPENT_PART * settings.max_moves_per_hour
        return cls(min(bytes_left, max_bytes), moves_left, short)


@dataclass(frozen=True, eq=False, slots=True)
class Draft:
    """`part` is what would be done now, and `even` what that does to brokers; `then` is the goal.

    The goal is what the plan does that was found without limits, be it carried out whole, in parts,
    or, where its moves are too large for an hour, by another one that is within limits.
    """

    whole: Plan
    part: Plan
    whole_bytes: float
    part_bytes: float
    even: Evenness
    then: Evenness
    budget: Budget
    notes: tuple[str, ...]
    """What the planner had to say."""

    @property
    def is_whole(self) -> bool:
        return len(self.part) == len(self.whole)


def draft_plan(
    situation: Situation, load: Load, *, leaders_only: bool, max_bytes: float = inf
) -> Draft:
    """Return the plan for a load, and its part; what it does is by the load of now.

    Where nothing of it fits, because single partitions are too large, it is a plan that does.
    Raises UsageError for topics of the settings that are not there any more.
    """
    state, settings = situation.state, situation.settings
    budget = Budget.left(situation, max_bytes)
    # No budget can be held against partitions of unknown size.
    unsized = {state.tp(row) for row in np.flatnonzero(state.partition_size_bytes < 0).tolist()}
    request = PlanRequest(
        leaders_only=leaders_only,
        topics=settings.topics,
        keep=settings.keep,
        frozen=situation.history.backing_off(situation.now) | unsized,
        band=settings.aim_band,
    )
    even, usual = level_similar(state, load, settings.alike)
    goal = suggestion = suggest_plan(even, usual, request)
    part = _part(state, load, suggestion.plan, budget)
    if len(suggestion.plan) and not len(part) and not budget.is_short:
        limits = Limits(budget.bytes, budget.moves)
        suggestion = suggest_plan(even, usual, replace(request, limits=limits))
        part = _part(state, load, suggestion.plan, budget)
    now = level_similar(state, situation.load_view.load, settings.alike)
    return Draft(
        whole=suggestion.plan,
        part=part,
        whole_bytes=copied_bytes(state, suggestion.plan),
        part_bytes=copied_bytes(state, part),
        even=evenness(*now, part, band=settings.aim_band),
        then=evenness(*now, goal.plan, band=settings.aim_band),
        budget=budget,
        notes=suggestion.notes,
    )


def _part(state: ClusterState, load: Load, plan: Plan, budget: Budget) -> Plan:
    return affordable_part(state, load, plan, max_bytes=budget.bytes, max_moves=budget.moves)


def check_worth(situation: Situation, draft: Draft) -> Act | Reason:
    """Return the part of the draft's plan if it is worth it and no check speaks against it."""
    settings, off = situation.settings, situation.imbalance.sentence
    if draft.budget.is_short and not draft.is_whole:
        left = f"{format_bytes(draft.budget.bytes)} and {counted(draft.budget.moves, 'move')}"
        of = f"{format_bytes(settings.max_bytes_per_hour)} and {settings.max_moves_per_hour:,}"
        plan = _size(draft.whole_bytes, len(draft.whole))
        why = f"{left} are left of the hour's {of}: too little to go on with a plan of {plan}."
        return Reason("budget", f"{off}, but {why}")
    gain = gained_shares(draft.even, settings.aim_band)
    if not draft.part.moves or gain < MIN_GAIN or not _has_enough_relief(settings, draft.then):
        why = f": {draft.notes[0]}" if draft.notes else ", and no move within the rules helps."
        return Reason("nothing-helps", off + why)
    state, load = situation.state, situation.load_view.load
    mean_bytes = float(np.maximum(state.size_bytes, 0).sum()) / max(len(state.alive_ids), 1)
    costs = draft.part_bytes / max(mean_bytes, 1.0)
    if gain < settings.min_benefit * costs:
        return Reason(
            "little-benefit",
            f"{off}, but to copy {costs:.0%} of a broker's data for {gain:.0%} of a share "
            f"is not worth it ({settings.min_benefit:g} for each is).",
        )
    moving = situation.observed.reassignments
    for finding in check_plan(state, load, draft.part, reassignments=moving):
        if finding.severity >= Severity.UNSAFE:
            against = f"{finding.id}: {finding.sentence}"
            return Reason("refused", f"{off}, but a check speaks against the plan: {against}")
    return Act(
        plan=draft.part,
        reasons=(Reason("act", _explain(situation, draft)),),
        copies=sum(move.moves_data for move in draft.part),
        leaders=sum(move.before[0] != move.after[0] for move in draft.part),
        bytes=draft.part_bytes,
    )


def _has_enough_relief(settings: AutopilotSettings, then: Evenness) -> bool:
    """Return whether the goal brings any broker that is outside a good way nearer.

    That others get more even, who are not so far off, is not what a run was begun for: with a
    partition too large to even out it would be done again and again.
    """
    before, after = then.off(then.before), then.off(then.after)
    nearer = (before - after)[is_outside(settings, before)]
    return bool(nearer.max(initial=0.0) >= settings.start_band - settings.inner_band - 1e-9)


def _explain(situation: Situation, draft: Draft) -> str:
    off = f"{situation.imbalance.sentence}{situation.load_view.words}"
    many = counted(len(draft.part), "partition")
    if any(move.moves_data for move in draft.part):
        does = f"{many} moved, {format_bytes(draft.part_bytes)} to copy"
    else:
        does = f"{many} led by another of its replicas, nothing to copy"
    if not draft.is_whole:
        does += f" (of a plan of {_size(draft.whole_bytes, len(draft.whole))})"
    after = imbalance_of(situation.settings, draft.even, after=True)
    return f"{off}: {does}, and then {after.words}."


def _size(copied: float, moves: int) -> str:
    return f"{counted(moves, 'move')} and {format_bytes(copied)}"


MAX_TRIES = 3
"""How often a plan that takes too long is made anew with fewer bytes."""
SAFETY_PART = 0.8
"""The part of the bytes that would just be copied in time: the next plan is another one."""


def choose_plan(situation: Situation) -> Act | Reason:
    """Return the plan to carry out, or in one sentence why there is none.

    There is a load, and there are brokers outside the band. To choose leaders anew moves no data:
    where that is enough, nothing is copied.
    """
    try:
        choice = _find_plan(situation, leaders_only=True)
        if not isinstance(choice, Act):
            choice = _find_plan(situation)
        return _in_time(situation, choice)
    except UsageError as error:  # a topic of the settings that is not there any more
        return Reason("nothing-helps", f"{error.title} {error.next}")


def _find_plan(
    situation: Situation, *, leaders_only: bool = False, max_bytes: float = inf
) -> Act | Reason:
    """Return the plan by the mean of the day, if brokers are even enough by it now, too.

    Else the plan by the load of now, if leaders alone bring everybody inside the band by it.
    """
    settings, usual = situation.settings, situation.load_view.usual()
    if usual is not None:
        draft = draft_plan(situation, usual, leaders_only=leaders_only, max_bytes=max_bytes)
        if draft.then.off(draft.then.after).max(initial=0.0) <= settings.inner_band:
            choice = check_worth(situation, draft)
            if isinstance(choice, Act):
                return choice
    now = situation.load_view.load
    draft = draft_plan(situation, now, leaders_only=leaders_only, max_bytes=max_bytes)
    after = imbalance_of(settings, draft.then, after=True)
    if leaders_only and after.outside:
        return Reason("nothing-helps", f"{after.sentence}, whoever leads.")
    return check_worth(situation, draft)


def _in_time(situation: Situation, choice: Act | Reason) -> Act | Reason:
    """Return a plan whose run ends before hours in which nothing is begun, by its estimate."""
    if not (situation.settings.avoid or situation.settings.only):
        return choice
    why = None
    for _ in range(1 + MAX_TRIES):
        if isinstance(choice, Reason):
            break
        _, estimate = estimate_run(situation, choice.plan)
        late, left = lateness(situation, estimate)
        if not late:
            return choice
        why = why or _too_long_reason(situation, late, left)
        if not choice.bytes:
            break
        max_bytes = choice.bytes * SAFETY_PART * left / (late + left)
        choice = _find_plan(situation, max_bytes=max_bytes)
    return why or choice


def _too_long_reason(situation: Situation, late: float, left: float) -> Reason:
    settings = situation.settings
    at = (situation.now + timedelta(seconds=left)).astimezone()
    if settings.avoid.holds(at):
        ends = f"busy hours ({settings.avoid.text}) begin"
    else:
        ends = f"the maintenance window ({settings.only.text}) ends"
    return Reason(
        "too-long",
        f"{situation.imbalance.sentence}, but a run would take up to "
        f"{format_duration(late + left)}, and {ends} in {format_duration(left)}.",
    )
