"""A suggested plan as the dashboard keeps it, and what of it holds for a newer state. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.effect import BAND
from core.plan.move_order import order_moves
from core.plan.plan import Move, Plan
from core.plan.planner.evenness import Evenness, evenness
from core.plan.planner.model.problem import brokers_outside
from core.plan.planner.plan_result import MoveReason, PlanResult, is_reached
from tui.plan.suggest_form import SuggestRequest


@dataclass(frozen=True, eq=False, slots=True)
class SuggestedPlan:
    """What was asked for and what was found."""

    request: SuggestRequest
    result: PlanResult

    @property
    def reached(self) -> bool:
        return is_reached(self.result, self.request.goal)

    def reason(self, move: Move) -> MoveReason | None:
        """Return why a move is in the plan; None for one that was made by hand."""
        if self.result.plan.by_partition.get(move.tp) != move:
            return None
        return self.result.reasons.get(move.tp)

    def dir_words(self, move: Move) -> str:
        """Return which log dirs a move is for, "" for none and for one that was made by hand."""
        dirs = self.result.dirs
        if dirs is None or self.result.plan.by_partition.get(move.tp) != move:
            return ""
        lands = [f"lands in {path}" for path in move.new_log_dirs.values()]
        return ", ".join([why.words for why in dirs.reasons.get(move.tp, ())] + lands)

    def is_part_of(self, plan: Plan) -> bool:
        """Return whether a plan still holds a move of this one."""
        known = self.result.plan.by_partition
        return any(known.get(move.tp) == move for move in plan)


def evenness_of(
    state: ClusterState, load: Load, plan: Plan, suggested: SuggestedPlan | None
) -> Evenness:
    """Return brokers before and after a plan, counted as it was asked for.

    A broker that is drained has no share while the plan takes anything off it, nor has one that is
    not of those that alone hold the topics.
    """
    if suggested is None or not suggested.is_part_of(plan):
        return evenness(state, load, plan, band=BAND)
    goal = suggested.request.goal
    taken = {broker for move in plan for broker in move.removing}
    known, outside = state.broker_by_id, brokers_outside(state, goal.brokers, goal.exclude)
    return evenness(
        state,
        load,
        plan,
        leaving=[broker for broker in goal.leaving if broker in taken],
        excluded=[broker for broker in known if broker in goal.exclude or broker in outside],
        band=goal.band,
    )


def helpful_first(
    state: ClusterState, load: Load, plan: Plan, suggested: SuggestedPlan | None
) -> tuple[TopicPartition, ...] | None:
    """Return a suggested plan's partitions in the order a run takes them; None for another plan."""
    if suggested is None or not suggested.is_part_of(plan):
        return None
    sizes = state.partition_size_bytes
    copied = []
    for move in plan:
        row = state.find(move.tp)
        size = 0.0 if row is None else float(max(sizes[row], 0))
        copied.append(max(size * len(move.adding), 1.0))
    return tuple(plan.moves[at].tp for at in order_moves(state, load, plan, copied))
