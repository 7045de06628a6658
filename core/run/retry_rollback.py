"""Plans that follow an ended run: retry what it left undone, or roll back what it did.

Pure; both are plans on the present state of the cluster. What does not hold any more is left out,
and said partition by partition.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.plan import Move, Plan, current_target, log_dir_of
from core.plan.rebase import LostMove, destination_problem, missing_reason
from core.run.journal.move_state import Phase, Role, RunMove
from core.run.journal.run_state import RunState
from core.units import id_list


class FollowUp(Enum):
    """What is to come of an ended run; the values are what a run in progress is asked for."""

    RETRY = "retry"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class FollowUpPlan:
    """A plan on the present state, and what of the ended run is not in it."""

    plan: Plan
    left: tuple[LostMove, ...]


def plan_followup(
    run: RunState, way: FollowUp, state: ClusterState, only: Collection[TopicPartition] = ()
) -> FollowUpPlan:
    """Return the plan that tries an ended run again, or rolls it back; of `only`, or of all.

    RETRY takes what failed, was cancelled or skipped. ROLLBACK takes what was really done, back to
    the ordered replicas from before the run. Raises UsageError when there is none of either.
    """
    if way is FollowUp.RETRY:
        due, note = _unfinished_moves(run), f"what run {run.run_id} left undone"
        not_due = f"has neither failed nor been left out in run {run.run_id}."
        nothing = "left nothing undone: there is nothing to try again."
    else:
        due, note = _rollback_moves(run), f"back to before run {run.run_id}"
        not_due = f"was not moved by run {run.run_id}."
        did = "has been rolled back already" if run.rolling_back else "has moved nothing"
        nothing = f"{did}: there is nothing to roll back."
    for tp in only:
        if all(move.tp != tp for move in due):
            raise UsageError(f"{tp} {not_due}", next="Nothing was changed.")
    if not due:
        raise UsageError(f"Run {run.run_id} {nothing}", next="Nothing was changed.")
    moves, left = [], []
    for move in due:
        if only and move.tp not in only:
            continue
        why = _objection(state, move)
        if why:
            left.append(LostMove(move.tp, why))
        else:  # from the order of now, so that a cancel leads back to it
            moves.append(move.with_base(current_target(state, move.tp)))
    plan = Plan.of(moves, cluster_id=state.cluster_id, notes=(note,))
    return FollowUpPlan(plan, tuple(left))


def _unfinished_moves(run: RunState) -> list[Move]:
    """Return the moves that have not been done: those of the way back, where it did not end."""
    undone = [m for m in run.moves if m.phase is not Phase.DONE and not m.replaced]
    back = [m for m in undone if m.role is Role.ROLLBACK]
    return [m.move for m in back or undone]


def _rollback_moves(run: RunState) -> list[Move]:
    """Return for each partition the move from what the run made of it to what it was before."""
    first: dict[TopicPartition, RunMove] = {}
    last: dict[TopicPartition, RunMove] = {}
    for m in run.moves:
        first.setdefault(m.move.tp, m)
        if m.phase is Phase.DONE:
            last[m.move.tp] = m
    back = (m.move.rollback_to(first[tp].move) for tp, m in last.items())
    return [move for move in back if move.reassigns or move.dir_moves]


def _objection(state: ClusterState, move: Move) -> str:
    """Return why a move does not hold any more, or "" while it does."""
    if why := missing_reason(state, move):
        return why
    index = state.find(move.tp)
    assert index is not None, "what is gone has been left already"
    row = state.row(index)
    if row.adding or row.removing:
        return "is moving just now"
    dirs = {b: log_dir_of(state, move.tp, b) for b in move.target_log_dirs}
    if row.replicas == move.after and dirs == move.target_log_dirs:
        return f"has {id_list(move.after)}{' in these log dirs' if dirs else ''} already"
    if set(row.replicas) != set(move.before):
        return f"has {id_list(row.replicas)} by now, not {id_list(move.before)}"
    return destination_problem(state, move)
