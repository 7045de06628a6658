"""Which copies in flight never end at the rates in force, and why: more comes in than passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from core.run.limits.inflow import FLOOR_BYTES_PER_S, Key, never
from core.run.limits.throttle import Side
from core.run.record.growing import growing_sides
from core.run.record.history import History
from core.run.tell.rates import Point, heading_for, size_changes


def never_sides(history: History, tracks: Mapping[int, Sequence[Point]]) -> dict[Key, str]:
    """Return the brokers and sides whose copies never end at the rates in force, and why."""
    seen = {i: track for i in history.in_flight if (track := tracks.get(i))}
    sizes = {index: size_changes(track) for index, track in seen.items()}
    leaders = {i: track[-1].leader for i, track in seen.items() if track[-1].leader is not None}
    left: defaultdict[Key, float] = defaultdict(float)
    for index, track in seen.items():
        newest, adding = track[-1], history.moves[index].move.adding
        for broker, arrived in zip(adding, newest.arrived, strict=False):  # then log dirs
            due = max(0, (newest.size_bytes or 0) - (arrived or 0))
            left[broker, Side.FOLLOWER] += due
            left[leaders.get(index, -1), Side.LEADER] += due
    found = {}
    for key, growing in growing_sides(history, sizes, leaders).items():
        held = history.rates.get(key)
        rate = held.limit_bytes_per_s if held is not None else None
        if rate is not None and rate > FLOOR_BYTES_PER_S:
            asked = heading_for(history, key) or rate  # one that rises yet is not judged as it is
            found[key] = never(*key, max(rate, asked), growing, left[key])
    return {key: why for key, why in found.items() if why}
