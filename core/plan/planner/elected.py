"""What an election of preferred leaders does to what brokers carry, and which help most. Pure."""

from __future__ import annotations

import numpy as np

from core.cluster.state import ClusterState, Int32, Int64
from core.load.snapshot import Float64, Load
from core.plan.planner.evenness import Evenness
from core.plan.planner.led import carried, leaders
from core.plan.planner.measures import LED
from core.plan.planner.placement import Placement
from core.plan.planner.problem import BAND, NOBODY, problem


def elected(
    state: ClusterState, load: Load, rows: Int64, most: int, *, band: float = BAND
) -> tuple[Int64, Evenness]:
    """Return the partitions to elect, at most so many of `rows`, those that even out most first.

    With them what brokers carry as leaders: before as partitions are led now, and after it.
    """
    on = Placement(problem(state, load, band=band))
    given, now = on.problem, leaders(on)
    before = carried(on, now) * on.per_share
    help = _relief(on, now, before)[rows]
    chosen = rows[np.lexsort((rows, -help))][: max(most, 0)]
    then = now.copy()
    then[chosen] = on.at[chosen, 0]
    active = given.active.copy()
    active[[m for m in range(len(active)) if m not in LED]] = False
    after = carried(on, then) * on.per_share
    ids = tuple(given.ids.tolist())
    return chosen, Evenness(ids, given.counts, active, before, after, band)


def _relief(on: Placement, now: Int32, loads: Float64) -> Float64:
    """Return how much fuller who leads each partition now is than its preferred leader, [P]."""
    given, to = on.problem, on.at[:, 0]
    found = np.zeros(len(to))
    known = (now != NOBODY) & (to != NOBODY)
    for measure in LED:
        if given.active[measure]:
            off = (loads[:, measure] - 1) * on.per_share[:, measure]
            off[~given.counts] = 0.0
            found[known] += given.items[known, measure] * (off[now[known]] - off[to[known]])
    return found
