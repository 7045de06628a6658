"""What to leave alone while a plan runs, and which clients may fail.

Pure; said before a run starts, on the command line and in the dashboard alike.
"""

from __future__ import annotations

from core.cluster.state import ClusterState
from core.plan.effect import leader_after
from core.plan.plan import Move, Plan

BY_FLAG = "--elect"


def find_precautions(
    state: ClusterState, plan: Plan, *, elects: bool = False, by: str = BY_FLAG
) -> tuple[str, ...]:
    """Return the sentences; none for what changes neither data nor leaders.

    `elects` says that preferred leaders are elected at the end, `by` what would have that done;
    without it a mere re-order leaves its leader alone.
    """
    said = []
    if any(move.moves_data for move in plan):
        said.append("Until it ends, delete none of these topics and add no partitions to them.")
    changed = sum(_loses_leader(state, move) for move in plan)
    changed += count_elected(state, plan) if elects else 0
    if changed:
        many = "1 leader changes" if changed == 1 else f"{changed} leaders change"
        said.append(f"Producers that do not retry may fail as {many}.")
    if not elects and (waiting := count_waiting_for_election(state, plan)):
        many = "1 leader changes" if waiting == 1 else f"{waiting} leaders change"
        said.append(f"{many} by an election only: {by}, or trimtab elect when it has ended.")
    return tuple(said)


def count_waiting_for_election(state: ClusterState, plan: Plan) -> int:
    """Return how many partitions the plan wants another leader for that come by it only elected.

    Who leads and stays goes on leading until preferred leaders are elected.
    """
    return sum(_needs_election(state, move) for move in plan)


def count_elected(state: ClusterState, plan: Plan) -> int:
    """Return how many leaders an election at the end changes: of all that move, not only those.

    A partition may have been led by another than its preferred replica before.
    """
    return sum(
        (leader := _leader(state, move)) in move.after and leader != move.after[0] for move in plan
    )


def _loses_leader(state: ClusterState, move: Move) -> bool:
    leader = _leader(state, move)
    return leader is not None and leader not in move.after


def _needs_election(state: ClusterState, move: Move) -> bool:
    leader = _leader(state, move)
    return leader in move.after and leader_after(move, leader) != leader


def _leader(state: ClusterState, move: Move) -> int | None:
    """Return who leads a partition now; None where nobody does, or it is gone."""
    row = state.find(move.tp)
    leader = -1 if row is None else int(state.leader[row])
    return None if leader < 0 else leader
