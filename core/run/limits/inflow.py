"""What comes in while partitions move: it is copied, too, and a quota below it never ends.

Pure; told by how fast the leaders' logs grow, within seconds, and not by waiting for a stall.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from core.run.limits.throttle import Side
from core.units import format_rate

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
