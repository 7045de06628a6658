"""A plan at round rates and which of them to begin with; the closed form where time is short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isfinite

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import min_seconds
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.estimate.estimate import (
    Estimate,
    estimate_at,
    estimate_task,
    estimate_within,
    side_rows,
)
from core.plan.estimate.estimate_text import explain_never, explain_no_rate
from core.plan.estimate.near_capacity import find_near_capacity
from core.plan.estimate.required_rates import GENTLE_BYTES_PER_S
from core.plan.estimate.uncertainty import AROUND_RANGE, Task
from core.plan.plan import Plan
from core.units import UNLIMITED, format_duration, format_rate

ROUND_RATES = tuple(int(step * 10**power) for power in range(3, 11) for step in (1, 2, 5))
TABLE_ROWS = 8
SOON_SECONDS = 600.0
AT_ONCE_SECONDS = 60.0


def rate_table(
    state: ClusterState,
    load: Load,
    plan: Plan,
    *,
    max_extra_bytes: int | None = None,
    calibration: Calibration = NOTHING_LEARNED,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[Estimate, ...]:
    """Return estimates at round rates, slowest first; a rate that never ends begins, if any.

    Where none ends, one more above ordinary replication follows. `go_on` may raise to end it.
    """
    task = Task.of(state, load, plan, max_extra_bytes)
    if not task.loads or not task.known:
        return ()
    floor = max(load.background for load in task.loads)
    largest = max(load.bytes for load in task.loads)
    slow_enough = (rate for rate in ROUND_RATES if rate <= task.fastest_bytes_per_s)
    fastest = max(slow_enough, default=ROUND_RATES[0])
    min_rate = min(max(floor * 0.99, largest / (24 * 3600)), fastest)
    rates = [rate for rate in ROUND_RATES if min_rate <= rate <= fastest]
    below = [rate for rate in ROUND_RATES if rate < min_rate]
    if floor > 0 and below:
        rates.insert(0, below[-1])
    useful = [rate for rate in rates if largest / rate > 2.0]
    chosen = useful[-TABLE_ROWS:] if len(useful) > 1 else rates[:2]
    estimates = []
    for rate in chosen:
        go_on()
        estimates.append(estimate_task(task, rate, calibration))
    if all(row.seconds is None for row in estimates):
        above = next((rate for rate in ROUND_RATES if rate > max(floor, fastest)), fastest)
        last = min(above, int(task.fastest_bytes_per_s)) if task.link_known else above
        if last > chosen[-1]:
            estimates.append(estimate_task(task, last, calibration))
    return tuple(estimates[-TABLE_ROWS:])


def default_rate(table: Sequence[Estimate]) -> int | None:
    """Return the rate to begin with, None when none ends.

    The slowest that is done in a minute if it is gentle enough for any broker, else the slowest
    that is done in ten minutes, else the fastest: of those at which no broker comes near its
    capacity, as far as that is known. Where one does at all of them it is the slowest.
    """
    rows = [row for row in table if row.seconds is not None]
    chosen = _select_soon_enough([row for row in rows if row.near_capacity is None] or rows[:1])
    return chosen.rate_bytes_per_s if chosen is not None else None


def slower_reason(table: Sequence[Estimate]) -> str:
    """Return why the rate to begin with is slower than it would be; "" where it is not."""
    usual = _select_soon_enough([row for row in table if row.seconds is not None])
    if usual is None or usual.near_capacity is None:
        return ""
    if usual.rate_bytes_per_s == default_rate(table):
        return ""
    return f"at {format_rate(usual.rate_bytes_per_s)} {usual.near_capacity.words}"


def _select_soon_enough(ending: Sequence[Estimate]) -> Estimate | None:
    done = [(row, row.seconds) for row in ending if row.seconds is not None]
    at_once = [row for row, seconds in done if seconds <= AT_ONCE_SECONDS]
    if at_once and at_once[0].rate_bytes_per_s <= GENTLE_BYTES_PER_S:
        return at_once[0]
    soon = [row for row, seconds in done if seconds <= SOON_SECONDS]
    return soon[0] if soon else (ending[-1] if ending else None)


# -- how long a suggested plan takes --------------------------------------------------------------

MANY = 1000
"""Copies beyond which a plan's time is told by the closed form: to simulate it takes seconds."""
SIMULATION_SECONDS, PLACEMENT_SECONDS = 3e-3, 2e-5
"""How long it takes at most to simulate a plan at the round rates: a copy, and a partition.

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

    None where nothing is copied. Where `seconds_left` are too few to simulate the plan, it is the
    least time, and the rate for a deadline may be too low: then its note says so.
    """
    if not any(move.receiving for move in plan):
        return None
    task = Task.of(state, load, plan)
    if not task.known:
        return estimate_at(state, load, plan, UNLIMITED, calibration=known)
    if not task.loads:
        return None
    copies = len(task.what.copies)
    placements = state.partition_count + sum(len(move.dir_moves) for move in plan)
    needed = SIMULATION_SECONDS * copies + PLACEMENT_SECONDS * placements
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
    """Return how long a plan takes, None where only the least it can take was told."""
    return estimate.seconds if estimate is not None and estimate.range_seconds else None


def _lower_bound_by_deadline(task: Task, seconds: float) -> Estimate:
    """Return the least time at the slowest round rate that may keep a deadline, with that doubt."""
    estimate = _lower_bound(task, seconds)
    if estimate.seconds is None:
        return estimate
    if seconds > max(estimate.seconds, AROUND_RANGE[1]):
        return replace(estimate, note=NOT_SIMULATED)
    fastest = f"{format_rate(estimate.rate_bytes_per_s)} takes {format_duration(estimate.seconds)}"
    never = explain_no_rate(estimate.total_bytes, seconds, AROUND_RANGE[1], fastest)
    return replace(estimate, seconds=None, never=never)


def _lower_bound(task: Task, until_seconds: float) -> Estimate:
    """Return the least time of a plan, at the slowest round rate that ends it until then."""
    total_bytes = task.what.total_bytes + task.dirs.total_bytes
    loads = {**task.what.side_loads, **task.dirs.sides}
    fastest = task.link_bytes_per_s if task.link_known else ROUND_RATES[-1]
    for rate in ROUND_RATES:
        seconds = _min_seconds(task, rate)
        if seconds is not None and (seconds <= until_seconds or rate >= fastest):
            rows = side_rows(loads, seconds, {})
            near = find_near_capacity(task.bearings, rate)
            return Estimate(rate, seconds, None, None, None, rows, total_bytes, near_capacity=near)
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
