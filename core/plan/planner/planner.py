"""The planner: from what an operator wants to a whole plan.

What has to move goes first (brokers that leave, racks). Then leaders are chosen among the
replicas that there are; only when that is not enough do data move, and leaders are chosen anew.
The same input gives the same plan.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.planner import forced, notes
from core.plan.planner.leading import even_leaders
from core.plan.planner.measures import HOSTED, LED, MEASURES, Measure
from core.plan.planner.moving import Moving
from core.plan.planner.placement import Placement
from core.plan.planner.problem import Problem, problem
from core.plan.planner.told import Suggested, told
from core.plan.planner.wanted import Wanted, refuse, untouched


def suggest(state: ClusterState, load: Load, wanted: Wanted) -> Suggested:
    """Return the plan for what is wanted; raises UsageError for wants that contradict."""
    refuse(state, wanted)
    old = tuple(one for one, _ in wanted.replace)
    asked = partial(
        problem,
        state,
        load,
        band=wanted.band,
        excluded=wanted.exclude,
        leaving=(*wanted.drain, *old),
        filling=wanted.fill or None,
        frozen=untouched(state, wanted),
    )
    given = asked(replicas_wanted=wanted.replicas)
    start = Placement(given if wanted.replicas is None else asked())
    found, undone = _forced(given, wanted) if _must_move(wanted) else (_evened(given, wanted), [])
    return told(
        start,
        found,
        [*notes.unknown(state, load), *undone, *notes.small_racks(given), *notes.too_big(given)],
        bool(undone),
    )


def _must_move(wanted: Wanted) -> bool:
    return bool(wanted.replace or wanted.drain or wanted.racks_only or wanted.replicas)


def _forced(given: Problem, wanted: Wanted) -> tuple[Placement, list[str]]:
    """Return where replicas go that must go, and what could not be done, in sentences."""
    on, limits = Placement(given), wanted.limits
    row = {int(broker): at for at, broker in enumerate(given.ids)}
    if wanted.replace:
        pairs = [(row[old], row[new]) for old, new in wanted.replace]
        return on, notes.stays(given, forced.replace(on, pairs, limits))
    if wanted.drain:
        return on, notes.stays(given, forced.empty(on, [row[b] for b in wanted.drain], limits))
    if wanted.replicas is not None:
        less = forced.resize(on, wanted.replicas, limits)
        why = f"cannot have {wanted.replicas} replicas: too few brokers have room, or a limit."
        return on, [f"{len(less)} partitions {why}"] if less else []
    doubled = forced.repair_racks(on, np.flatnonzero(given.movable), limits)
    why = "keep two replicas in one rack: no broker of another rack has room, or they are moving."
    return on, [f"{len(doubled)} partitions {why}"] if doubled else []


def _evened(given: Problem, wanted: Wanted) -> Placement:
    """Return brokers made even: by leaders alone where that is enough, else by copies too.

    What ends worse than it began, because nothing can be evened out, is not proposed.
    """
    led = Placement(given)
    if not wanted.fill:
        even_leaders(led)
        if wanted.leaders_only or not _off(led):
            return led
    on = Placement(given)
    Moving(on, HOSTED, wanted.limits).carry_out()
    even_leaders(on)
    if on.off_by(np.array(LED)).any():
        Moving(on, tuple(Measure), wanted.limits).carry_out()
        even_leaders(on)
    return min((Placement(given), led, on), key=_off) if not wanted.fill else on


def _off(on: Placement) -> float:
    """Return how far a placement is from the band, all in all."""
    return float((on.off_by(np.arange(MEASURES)) ** 2).sum())
