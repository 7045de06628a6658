"""What grows while a run's moves are in flight: whose quotas count what is produced meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    found: defaultdict[Key, list[Growing]] = defaultdict(list)
    for index in history.in_flight:
        move, leader = history.moves[index].move, leaders.get(index)
        produced = growth_bytes_per_s(sizes.get(index, ()))
        if leader is None or not produced:
            continue
        followers = sum(broker != leader for broker in move.before)
        one = Growing(produced, followers, len(move.adding))
        found[leader, Side.LEADER].append(one)
        for broker in move.adding:
            found[broker, Side.FOLLOWER].append(one)
    return dict(found)
