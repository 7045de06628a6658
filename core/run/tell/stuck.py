"""Why a move in flight gets nowhere, or goes slower than was asked, in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from core.run.limits.inflow import FLOOR_BYTES_PER_S
from core.run.limits.throttle import Side
from core.run.record.history import History, MoveHistory
from core.run.tell.rates import Point, arriving_side
from core.units import format_rate

STUCK_SECONDS = 30.0
"""No byte for this long, longer than two quota windows, is stuck."""
GROWTH_SECONDS = 20.0


def stuck(
    m: MoveHistory,
    track: list[Point] | None,
    down: frozenset[int],
    disks: Mapping[int, str],
    never: Mapping[tuple[int, Side], str],
    *,
    held: bool = False,
    unheld_at: datetime | None = None,
) -> str:
    """Return why a move in flight gets nowhere, in words; "" while it does or may still.

    `disks` says which brokers' log dirs fail: the replicas there have vanished from their answers.
    `never` are the sides whose quota is below what comes in (core.run.limits.inflow). What is
    `held` is meant to get no byte, and what was held until `unheld_at` is judged from then on.
    """
    gone = [b for b in m.move.receiving if b in down]
    if gone:
        return f"b{gone[0]} is down"
    if not track:
        return ""
    newest = track[-1]
    since = max(newest.since, unheld_at.timestamp()) if unheld_at else newest.since
    idle = newest.at.timestamp() - since
    copies = len(m.move.receiving)
    whole = newest.size_bytes is not None and newest.bytes >= newest.size_bytes * copies
    failing = next((disks[b] for b in m.move.receiving if b in disks), "")
    if failing and not whole and (newest.held or idle >= STUCK_SECONDS):
        return failing
    if held:
        return ""
    sides = [(b, Side.FOLLOWER) for b in m.move.adding]
    if newest.leader is not None and sides:
        sides.insert(0, (newest.leader, Side.LEADER))
    hopeless = next((never[side] for side in sides if side in never), "")
    if hopeless and not whole:
        return hopeless
    if idle >= STUCK_SECONDS and not whole:
        if newest.leader is not None and newest.leader in down:
            return f"b{newest.leader}, its leader, is down"
        return "no byte has come"
    free = (p for p in track if unheld_at is None or p.at >= unheld_at)
    first = next((p for p in free if (newest.at - p.at).total_seconds() >= GROWTH_SECONDS), None)
    if first is not None and first.size_bytes is not None and newest.size_bytes is not None:
        grown = (newest.size_bytes - first.size_bytes) * copies
        if grown > 0 and grown >= newest.bytes - first.bytes and not whole:
            return "throttle below what is produced"
    return ""


def slowed(history: History, m: MoveHistory) -> str:
    """Return which lower quota of somebody else's slows a move; "" for none."""
    for broker in m.move.receiving:
        key = broker, arriving_side(m.move, broker)
        limit = history.rates.get(key)
        if limit is not None and limit.is_theirs:
            rate = limit.limit_bytes_per_s
            if rate is not None and rate < history.asked_of(key):
                return f"b{broker} quota {format_rate(rate)}, not ours"
    return ""


def is_held(history: History, m: MoveHistory) -> bool:
    """Return whether a move waits on the floor, because the run was paused like that."""
    sides = [(broker, arriving_side(m.move, broker)) for broker in m.move.receiving]
    held = [history.rates.get(side) for side in sides]
    return (
        history.pace.floored
        and bool(held)
        and all(rate is not None and rate.limit_bytes_per_s == FLOOR_BYTES_PER_S for rate in held)
    )
