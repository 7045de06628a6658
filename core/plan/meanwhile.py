"""What to leave alone while a plan is carried out, and which clients may fail meanwhile.

Pure; said before a run starts, on the command line and in the dashboard alike.
"""

from __future__ import annotations

from core.cluster.state import ClusterState
from core.plan.effect import leader_after
from core.plan.plan import Move, Plan


def meanwhile(state: ClusterState, plan: Plan, *, elects: bool = False) -> tuple[str, ...]:
    """Return the sentences; none for what changes neither data nor leaders.

    `elects` says that preferred leaders are elected at the end; without that a mere re-order leaves
    its leader alone.
    """
    said = []
    if any(move.moves_data for move in plan):
        said.append("Until it ends, delete none of these topics and add no partitions to them.")
    changed = sum(_changes_leader(state, move, elects=elects) for move in plan)
    if changed:
        many = "1 leader changes" if changed == 1 else f"{changed} leaders change"
        said.append(f"Producers that do not retry may fail as {many}.")
    return tuple(said)


def _changes_leader(state: ClusterState, move: Move, *, elects: bool) -> bool:
    row = state.find(move.tp)
    if row is None:
        return False
    leader = int(state.leader[row])
    if leader not in move.after:
        return leader >= 0
    return elects and leader_after(move, leader) != leader
