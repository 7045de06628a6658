"""How long a suggested plan takes, in closed form, where simulating would take too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isfinite

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import min_seconds
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.estimate.estimate import Estimate, estimate_at, estimate_within, side_rows
from core.plan.estimate.estimate_text import explain_never, explain_no_rate
from core.plan.estimate.near_capacity import find_near_capacity
from core.plan.estimate.rate_table import ROUND_RATES, default_rate, rate_table
from core.plan.estimate.uncertainty import AROUND_RANGE, Task
from core.plan.plan import Plan
from core.units import UNLIMITED, format_duration, format_rate

MANY = 1000
"""Copies beyond which a plan's time is told by the closed form: to play it out takes seconds."""


SIMULATION_SECONDS, LAID_OUT_SECONDS = 3e-3, 2e-5
"""How long it takes at most to play a plan out at the round rates: a copy, and a partition.

A copy between log dirs is laid out only, as a partition is."""


DEADLINE_TIMES = 3
"""How often as long it takes to find the rate for a deadline."""


DAY_SECONDS = 24 * 3600.0


NOT_SIMULATED = (
    "There was no time to play the plan out: the rate is the least that might do, and may be too "
    "low. Ask trimtab estimate PLAN --within TIME."
)


def estimate_plan_time(
    state: ClusterState,
    load: Load,
    plan: Plan,
    seconds: float | None,
    known: Calibration = NOTHING_LEARNED,
    seconds_left: Callable[[], float] = lambda: inf,
) -> Estimate | None:
    """Return how fast it must be for a deadline, else how long it takes at the rate to begin with.

    `known` is what earlier runs on this cluster taught. None where nothing is copied. Where no rate
    ends it is a *never*; where a size is not known there is no time, and its note says why. Where
    `seconds_left` are too few to play the plan out, it is the least time, and the rate for a
    deadline may be too low: then its note says so.
    """
    if not any(move.receiving for move in plan):
        return None
    task = Task.of(state, load, plan)
    if not task.known:
        return estimate_at(state, load, plan, UNLIMITED, calibration=known)
    if not task.loads:
        return None
    copies = len(task.what.copies)
    laid_out = state.partition_count + sum(len(move.dir_moves) for move in plan)
    needed = SIMULATION_SECONDS * copies + LAID_OUT_SECONDS * laid_out
    if seconds is not None:
        if seconds_left() < DEADLINE_TIMES * needed:
            return _lower_bound_by_deadline(task, seconds)
        return estimate_within(state, load, plan, seconds, calibration=known)
    if copies > MANY or seconds_left() < needed:
        return _lower_bound(task, DAY_SECONDS)
    rates = rate_table(state, load, plan, calibration=known)
    chosen = default_rate(rates)
    return next((row for row in rates if row.rate_bytes_per_s == chosen), rates[-1])


def simulated_seconds(estimate: Estimate | None) -> float | None:
    """Return how long a plan takes, None where only the least it can take was told.

    The least is at a rate slower than the one to begin with, so nothing may be reckoned with it.
    """
    return estimate.seconds if estimate is not None and estimate.range_seconds else None


def _lower_bound_by_deadline(task: Task, seconds: float) -> Estimate:
    """Return the least time at the slowest round rate that may keep a deadline, with that doubt."""
    found = _lower_bound(task, seconds)
    if found.seconds is None:
        return found
    if seconds > max(found.seconds, AROUND_RANGE[1]):
        return replace(found, note=NOT_SIMULATED)
    fastest = f"{format_rate(found.rate_bytes_per_s)} takes {format_duration(found.seconds)}"
    never = explain_no_rate(found.total_bytes, seconds, AROUND_RANGE[1], fastest)
    return replace(found, seconds=None, never=never)


def _lower_bound(task: Task, until_seconds: float) -> Estimate:
    """Return the least time of a plan, at the slowest round rate that ends it until then.

    Where none does it is the fastest one's.
    """
    total_bytes = task.what.total_bytes + task.dirs.total_bytes
    loads = {**task.what.side_loads, **task.dirs.sides}
    fastest = task.link_bytes_per_s if task.link_known else ROUND_RATES[-1]
    for rate in ROUND_RATES:
        least = _min_seconds(task, rate)
        if least is not None and (least <= until_seconds or rate >= fastest):
            rows = side_rows(loads, least, {})
            near = find_near_capacity(task.bearings, rate)
            return Estimate(rate, least, None, None, None, rows, total_bytes, near_capacity=near)
    limit, never = explain_never(loads, rate)
    return Estimate(rate, None, None, never, limit, (), total_bytes)


def _min_seconds(task: Task, rate: int) -> float | None:
    """Return how long brokers copy at least, from one another and side by side between log dirs."""
    between = min_seconds(task.what, rate)
    if between is None:
        return None
    links = (task.what.side_loads[side].bytes / room for side, room in task.room.items())
    longest = max((between, *links, *task.dirs.seconds(rate).values()))
    return longest if isfinite(longest) else None
