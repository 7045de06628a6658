"""What comes in while partitions move: it is copied, too, and a quota below it never ends.

Pure; told by how fast the leaders' logs grow, within seconds, and not by waiting for a stall.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from core.run.throttle import Side
from core.units import format_rate

if TYPE_CHECKING:
    from core.run.history import History
    from core.run.rates import Point

GROWTH_SECONDS = 2.0
"""For how long a log is watched before its growth is believed."""
CREDIT_SECONDS = 11.5
"""How much of its rate a leader lets pass before it limits anything."""
FLOOR_BYTES_PER_S = 1
"""One fetch (10 MiB from each leader at most) passes in 11 s, as also at a rate of 0: a quota that
has counted nothing lets the next one through."""

Key = tuple[int, Side]


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
        one.in_bytes_per_s * (one.in_sync_followers + one.adding if side is Side.LEADER else 1)
        for one in growing
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


# -- of a run's moves in flight --------------------------------------------------------------


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


def never_sides(history: History, tracks: Mapping[int, Sequence[Point]]) -> dict[Key, str]:
    """Return the brokers and sides whose copies never end at the rates in force, and why."""
    seen = {i: track for i in history.in_flight if (track := tracks.get(i))}
    sizes = {index: size_changes(track) for index, track in seen.items()}
    leaders = {i: track[-1].leader for i, track in seen.items() if track[-1].leader is not None}
    left: defaultdict[Key, float] = defaultdict(float)
    for index, track in seen.items():
        newest, adding = track[-1], history.moves[index].move.adding
        for broker, arrived in zip(adding, newest.arrived, strict=True):
            due = max(0, (newest.size_bytes or 0) - (arrived or 0))
            left[broker, Side.FOLLOWER] += due
            left[leaders.get(index, -1), Side.LEADER] += due
    found = {}
    for key, growing in growing_sides(history, sizes, leaders).items():
        held = history.rates.get(key)
        rate = held.limit_bytes_per_s if held is not None else None
        if rate is not None and rate > FLOOR_BYTES_PER_S:
            found[key] = never(*key, rate, growing, left[key])
    return {key: why for key, why in found.items() if why}


def size_changes(track: Iterable[Point]) -> list[tuple[datetime, int]]:
    """Return the leader's sizes when they were first seen: leaders are asked now and then only."""
    changes: list[tuple[datetime, int]] = []
    for point in track:
        if point.size_bytes is not None and (not changes or changes[-1][1] != point.size_bytes):
            changes.append((point.at, point.size_bytes))
    return changes
