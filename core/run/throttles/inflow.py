"""Inflow per broker and side: what is produced meanwhile, and what is left to copy.

Pure; told by how fast the leaders' logs grow, within seconds, and not by waiting for a stall.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from core.plan.copies import Side
from core.run.journal.move_state import MoveRequest
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import Key, by_side
from core.units import format_rate

GROWTH_SECONDS = 2.0
"""For how long a log is watched before its growth is believed."""
CREDIT_SECONDS = 11.5
"""How much of its rate a leader lets pass before it limits anything."""
FLOOR_BYTES_PER_S = 1
"""One fetch (10 MiB from each leader at most) passes in 11 s, as also at a rate of 0: a quota that
has counted nothing lets the next one through."""


@dataclass(frozen=True, slots=True)
class Growing:
    """One moving partition in a broker's quota: what is produced, and who fetches it there."""

    in_bytes_per_s: float
    in_sync_followers: int
    adding: int


def growth_bytes_per_s(sizes: Sequence[tuple[datetime, int]]) -> float | None:
    """Return how fast a leader's log grows, from its sizes over some seconds; None if unknown.

    Times in which retention made it smaller are left out.
    """
    grown = seconds = 0.0
    for (began, before), (ended, after) in pairwise(sizes):
        if after >= before and ended > began:
            grown += after - before
            seconds += (ended - began).total_seconds()
    return grown / seconds if seconds >= GROWTH_SECONDS else None


def inflow_bytes_per_s(side: Side, growing: Iterable[Growing]) -> float:
    """Return what counts in a broker's quota besides the copies, as long as the moves last.

    A leader's: what in-sync followers and new replicas fetch of what is produced meanwhile; a
    follower's: what its own new replicas do.
    """
    return sum(
        move.in_bytes_per_s * (move.in_sync_followers + move.adding if side is Side.LEADER else 1)
        for move in growing
    )


def never(
    broker: int, side: Side, rate_bytes_per_s: int, growing: Sequence[Growing], left_bytes: float
) -> str:
    """Return why the copies of a broker's side never end at a rate, "" when they do.

    A quota below what comes in never catches up, unless a leader's first window covers the rest.
    """
    inflow = inflow_bytes_per_s(side, growing)
    credit = CREDIT_SECONDS * rate_bytes_per_s if side is Side.LEADER else 0.0
    if inflow <= 0 or rate_bytes_per_s > inflow or left_bytes <= credit:
        return ""
    what = "sends" if side is Side.LEADER else "receives"
    return (
        f"b{broker} {what} {format_rate(inflow)} of what is produced meanwhile: "
        f"at {format_rate(rate_bytes_per_s)} its copies never catch up"
    )


def growing_sides(
    run: RunState,
    sizes: Mapping[int, Sequence[tuple[datetime, int]]],
    leaders: Mapping[int, int],
) -> dict[Key, list[Growing]]:
    """Return what grows in each broker's quota, by side.

    `sizes` holds for each move its leader's sizes and when they were first seen, `leaders` who
    leads it. Logs of which nothing is known yet are left out.
    """
    produced = {i: growth_bytes_per_s(sizes.get(i, ())) or 0.0 for i in run.in_flight}
    return _growing_by_side(run, produced, leaders)


def expected_sides(run: RunState, indices: Iterable[int]) -> dict[Key, list[Growing]]:
    """Return the same of moves in flight together, by what was produced when the run was made."""
    moves = {index: run.moves[index] for index in indices}
    produced = {index: m.produced_bytes_per_s for index, m in moves.items()}
    leaders = {
        i: next(iter(m.move.before), None) if m.leader is None else m.leader
        for i, m in moves.items()
    }
    sides = _growing_by_side(run, produced, leaders)
    for index, m in moves.items():
        for broker in m.move.dir_moves if produced[index] else ():
            sides.setdefault((broker, Side.LOG_DIRS), []).append(Growing(produced[index], 0, 1))
    return sides


def _growing_by_side(
    run: RunState, produced: Mapping[int, float], leaders: Mapping[int, int | None]
) -> dict[Key, list[Growing]]:
    sides: defaultdict[Key, list[Growing]] = defaultdict(list)
    for index, rate in produced.items():
        move, leader = run.moves[index].move, leaders.get(index)
        if leader is None or not rate or not move.adding:
            continue
        followers = sum(broker != leader for broker in move.before)
        partition = Growing(rate, followers, len(move.adding))
        sides[leader, Side.LEADER].append(partition)
        for broker in move.adding:
            sides[broker, Side.FOLLOWER].append(partition)
    return dict(sides)


def remaining_bytes(
    run: RunState,
    arrived: Mapping[int, Sequence[int]],
    sizes: Mapping[int, int],
    leaders: Mapping[int, int],
) -> dict[Key, float | None]:
    """Return the bytes left by broker and side; None where one size is not known.

    By move: `arrived` is what each of its receiving brokers holds, `sizes` the leader's newest
    size, `leaders` who leads it; what they do not tell is as the preflight found it.
    """
    bytes_by_side: defaultdict[Key, float | None] = defaultdict(float)
    for index, m in enumerate(run.moves):
        if m.phase.ended or m.replaced or m.request is not MoveRequest.CONTINUE:
            continue
        size = sizes.get(index, m.size_bytes)
        leader = leaders.get(index, m.leader)
        came = arrived.get(index) or (0,) * len(m.move.receiving)
        for key, due in by_side(m.move, [max(0, (size or 0) - part) for part in came], leader):
            before = bytes_by_side[key]
            bytes_by_side[key] = None if size is None or before is None else before + due
    return dict(bytes_by_side)
