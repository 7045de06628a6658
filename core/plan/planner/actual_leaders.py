"""Actual leaders where they are not the preferred ones, and what an election changes. Pure.

The planner evens out preferred leaders; only an election gives leadership back to them.
"""

from __future__ import annotations

import numpy as np

from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.load.load import Float64, Load
from core.plan.effect import BAND
from core.plan.planner.evenness import Evenness
from core.plan.planner.model.measures import LEADER_MEASURES, NOBODY, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import build_problem


def actual_leaders(on: Placement) -> Int32:
    """Return the broker row that leads each partition, shape [P]; NOBODY where none holds it.

    Who leads now goes on as long as it holds a replica and the plan prefers nobody else than
    before; a partition without a leader is counted with its preferred one.
    """
    given, first = on.problem, on.at[:, 0]
    now = given.leader_row
    kept = (first == given.replicas[:, 0]) & (on.at == now[:, None]).any(axis=1)
    return np.where(kept & (now != NOBODY), now, first)


def load_as_leader(on: Placement, leader_row: Int32, *, surely: bool = False) -> Float64:
    """Return what brokers carry where these lead, `surely` without guesses, shape [B, MEASURES]."""
    found = (on.known_carried if surely else on.carried).copy()
    items, held = on.problem.sure if surely else on.problem.items, leader_row != NOBODY
    for measure in LEADER_MEASURES:
        led = items[held, measure]
        found[:, measure] = np.bincount(leader_row[held], led, on.problem.brokers)
    return found


def electable(on: Placement) -> Bool:
    """Return which partitions others lead than the preferred replica, which is up and in sync."""
    return np.asarray((actual_leaders(on) != on.at[:, 0]) & on.may_lead[:, 0], np.bool_)


def election_notes(on: Placement) -> list[str]:
    """Say how many partitions an election would give back, where that brings a broker nearer."""
    given, able = on.problem, electable(on)
    by, away = np.where(able, actual_leaders(on), on.at[:, 0]), int(able.sum())
    known = np.array([m for m in LEADER_MEASURES if given.active[m]], np.int64)
    if not away or not len(known):
        return []
    preferred = on.loads[:, known]
    really = load_as_leader(on, by)[:, known] * on.per_share[:, known]
    off, worse = (np.abs(shares - 1) for shares in (preferred, really))
    worse[~given.counts[:, None] | (worse <= off) | (worse <= given.band + 1e-9)] = 0.0
    if not worse.any():
        return []
    row, column = np.unravel_index(int(worse.argmax()), worse.shape)
    are = "partition is" if away == 1 else "partitions are"
    their = "its preferred replica" if away == 1 else "their preferred replicas"
    back = "it" if away == 1 else "them"
    return [
        f"{away} {are} led by others than {their}, so that broker {given.ids[row]} has "
        f"{really[row, column]:.0%} of its share of {Measure(int(known[column])).words}: "
        f"trimtab elect gives {back} back."
    ]


def select_elections(
    state: ClusterState, load: Load, rows: Int64, most: int, *, band: float = BAND
) -> tuple[Int64, Evenness]:
    """Return the partitions to elect, at most so many of `rows`, those that even out most first.

    With them what brokers carry as leaders: before as partitions are led now, and after it.
    """
    on = Placement(build_problem(state, load, band=band))
    given, now = on.problem, actual_leaders(on)
    before = load_as_leader(on, now) * on.per_share
    help = _relief(on, now, before)[rows]
    chosen = rows[np.lexsort((rows, -help))][: max(most, 0)]
    then = now.copy()
    then[chosen] = on.at[chosen, 0]
    active = given.active.copy()
    active[[m for m in range(len(active)) if m not in LEADER_MEASURES]] = False
    after = load_as_leader(on, then) * on.per_share
    ids = tuple(given.ids.tolist())
    return chosen, Evenness(ids, given.counts, active, before, after, band)


def _relief(on: Placement, now: Int32, loads: Float64) -> Float64:
    """Return how much fuller who leads each partition now is than its preferred leader, [P]."""
    given, to = on.problem, on.at[:, 0]
    found = np.zeros(len(to))
    known = (now != NOBODY) & (to != NOBODY)
    for measure in LEADER_MEASURES:
        if given.active[measure]:
            off = (loads[:, measure] - 1) * on.per_share[:, measure]
            off[~given.counts] = 0.0
            found[known] += given.items[known, measure] * (off[now[known]] - off[to[known]])
    return found
