"""How long a plan takes batch by batch, where what comes in meanwhile would fill a rate at once.

All of a busy plan at once may never end at a rate at which its batches do: only what is in flight
must be kept up with (core.plan.batches).
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.batches import BACKGROUND_SHARE, batch_moves
from core.plan.copying import BrokerSide, Copying, side_loads
from core.plan.plan import Plan
from core.plan.replication import WINDOW_SECONDS, Conditions, end_seconds
from core.units import UNLIMITED


class Batched(NamedTuple):
    """Seconds from the first submission to the last replica in sync; `ends` by broker and side.

    The least is what the busiest side needs if no batch waits for another, the most what all
    take one after the other.
    """

    least_seconds: float
    most_seconds: float
    ends: dict[BrokerSide, float]
    batches: int

    @property
    def seconds(self) -> float:
        return (self.least_seconds + self.most_seconds) / 2


def is_busy(what: Copying, rate_bytes_per_s: int) -> bool:
    """Return whether what comes in meanwhile takes so much of a rate that batches matter."""
    if rate_bytes_per_s == UNLIMITED or rate_bytes_per_s <= 0:
        return False
    most = max((load.background for load in side_loads(what).values()), default=0.0)
    return most > BACKGROUND_SHARE * rate_bytes_per_s


def batched(
    state: ClusterState,
    load: Load,
    plan: Plan,
    what: Copying,
    rate_bytes_per_s: int,
    conditions: Conditions,
) -> Batched | None:
    """Return how long the plan's batches take at a rate; None when one of them never ends."""
    indices = {move.tp: index for index, move in enumerate(plan)}
    batches = batch_moves(state, load, plan, rate_bytes_per_s=rate_bytes_per_s).batches
    number = {index: n for n, batch in enumerate(batches) for index in batch}
    parts: defaultdict[int, list[int]] = defaultdict(list)
    for at, copy in enumerate(what.copies):
        parts[number[indices[copy.tp]]].append(at)
    busy: defaultdict[BrokerSide, float] = defaultdict(float)
    now = 0.0
    ends: dict[BrokerSide, float] = {}
    for _, part in sorted(parts.items()):
        copies = [what.copies[at] for at in part]
        took = max(end_seconds(copies, what.idle_seconds, conditions))
        if math.isinf(took):
            return None
        sides = {
            side: carried.bytes / (rate_bytes_per_s - carried.background)
            for side, carried in side_loads(Copying(tuple(copies), {})).items()
        }
        if now:  # a leader's first window is quick once only
            took = max(took, *sides.values())
        for side, seconds in sides.items():
            busy[side] += seconds
            ends[side] = now + took
        now += took
    least = max(busy.values()) - WINDOW_SECONDS
    return Batched(min(now, max(least, now / 2)), now, ends, len(parts))
