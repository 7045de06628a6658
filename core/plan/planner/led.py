"""Who leads once replicas are where a placement has them: not the preferred one everywhere. Pure.

Leaders do not return by themselves after a restart unless brokers are told to; an election does it,
and no plan. The planner evens out preferred leaders; what others lead instead is told beside it.
"""

from __future__ import annotations

import numpy as np

from core.cluster.state import Bool, Int32
from core.load.snapshot import Float64
from core.plan.planner.measures import LED, Measure
from core.plan.planner.placement import Placement
from core.plan.planner.problem import NOBODY


def leaders(on: Placement) -> Int32:
    """Return the broker row that leads each partition, shape [P]; NOBODY where none holds it.

    Who leads now goes on as long as it holds a replica and the plan prefers nobody else than
    before; a partition without a leader is counted with its preferred one.
    """
    given, first = on.problem, on.at[:, 0]
    now = given.led_by
    kept = (first == given.replicas[:, 0]) & (on.at == now[:, None]).any(axis=1)
    return np.where(kept & (now != NOBODY), now, first)


def carried(on: Placement, led_by: Int32, *, surely: bool = False) -> Float64:
    """Return what brokers carry in the items' units where these lead, shape [B, MEASURES].

    `surely` counts no guesses.
    """
    found = (on.surely_carried if surely else on.carried).copy()
    items, held = on.problem.sure if surely else on.problem.items, led_by != NOBODY
    for measure in LED:
        led = items[held, measure]
        found[:, measure] = np.bincount(led_by[held], led, on.problem.brokers)
    return found


def electable(on: Placement) -> Bool:
    """Return which partitions others lead than the preferred replica, which is up and in sync."""
    return np.asarray((leaders(on) != on.at[:, 0]) & on.may_lead[:, 0], np.bool_)


def led_elsewhere(on: Placement) -> list[str]:
    """Say how many partitions an election would give back, and whom it is that they put off.

    Nothing where no broker is further outside the band for it.
    """
    given, able = on.problem, electable(on)
    by, away = np.where(able, leaders(on), on.at[:, 0]), int(able.sum())
    known = np.array([m for m in LED if given.active[m]], np.int64)
    if not away or not len(known):
        return []
    preferred = on.loads[:, known]
    really = carried(on, by)[:, known] * on.per_share[:, known]
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
