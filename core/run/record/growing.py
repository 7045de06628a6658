"""What grows while a run's moves are in flight: whose quotas count what is produced meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from core.run.limits.inflow import Growing, Key, growth_bytes_per_s
from core.run.limits.throttle import Side
from core.run.record.history import History


def growing_sides(
    history: History,
    sizes: Mapping[int, Sequence[tuple[datetime, int]]],
    leaders: Mapping[int, int],
) -> dict[Key, list[Growing]]:
    """Return what grows in each broker's quota, by side.

    `sizes` holds for each move its leader's sizes and when they were first seen, `leaders` who
    leads it. Logs of which nothing is known yet are left out.
    """
    produced = {i: growth_bytes_per_s(sizes.get(i, ())) or 0.0 for i in history.in_flight}
    return _in_quotas(history, produced, leaders)


def expected_sides(history: History, indices: Iterable[int]) -> dict[Key, list[Growing]]:
    """Return the same of moves that fly together, by what was produced when the run was made."""
    moves = {index: history.moves[index] for index in indices}
    produced = {index: m.produced_bytes_per_s for index, m in moves.items()}
    leaders = {
        i: next(iter(m.move.before), None) if m.leader is None else m.leader
        for i, m in moves.items()
    }
    found = _in_quotas(history, produced, leaders)
    for index, m in moves.items():
        for broker in m.move.dir_moves if produced[index] else ():
            found.setdefault((broker, Side.LOG_DIRS), []).append(Growing(produced[index], 0, 1))
    return found


def _in_quotas(
    history: History, produced: Mapping[int, float], leaders: Mapping[int, int | None]
) -> dict[Key, list[Growing]]:
    found: defaultdict[Key, list[Growing]] = defaultdict(list)
    for index, rate in produced.items():
        move, leader = history.moves[index].move, leaders.get(index)
        if leader is None or not rate or not move.adding:
            continue
        followers = sum(broker != leader for broker in move.before)
        one = Growing(rate, followers, len(move.adding))
        found[leader, Side.LEADER].append(one)
        for broker in move.adding:
            found[broker, Side.FOLLOWER].append(one)
    return dict(found)
