"""What a plan copies, and the part of it that fits what an hour's budget leaves. Pure."""

from __future__ import annotations

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.move_order import order
from core.plan.plan import Move, Plan


def part_of(
    state: ClusterState, load: Load, plan: Plan, *, most_bytes: float, most_moves: int
) -> Plan:
    """Return the moves that fit: what takes most off the worst brokers for its bytes first.

    What is only led elsewhere comes after all that is copied: it can be done in any hour. A part of
    the whole, not a plan of its own for so few bytes, leaves all where it is to stay: what has been
    moved rests, and could not be moved again when the others follow.
    """
    sizes = [_copied_bytes(state, move) for move in plan]
    if sum(sizes) <= most_bytes and len(plan) <= most_moves:
        return plan
    left = most_bytes
    taken: list[Move] = []
    by_relief = order(state, load, plan, sizes)
    for at in sorted(by_relief, key=lambda at: not plan.moves[at].moves_data):
        if len(taken) == most_moves:
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
