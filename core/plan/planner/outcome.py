"""What a suggested plan comes to: whether it does all that was wanted, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.calibration import NOTHING_LEARNED, Calibration
from core.plan.copying import Copying, copying, least_seconds
from core.plan.estimate import (
    ROUND_RATES,
    Estimate,
    default_rate,
    estimate_within,
    rate_table,
)
from core.plan.plan import Plan
from core.plan.planner.told import Suggested
from core.plan.planner.wanted import Wanted

MANY = 1000
"""Copies beyond which a plan's time is told by the closed form: to play it out takes seconds."""
PLAYED_SECONDS, LAID_OUT_SECONDS = 3e-3, 2e-5
"""How long it takes at most to play a plan out at the round rates: a copy, and a partition."""
DEADLINE_TIMES = 3
"""How often as long it takes to find the rate for a deadline."""
DAY_SECONDS = 24 * 3600.0


def is_reached(found: Suggested, wanted: Wanted) -> bool:
    """Return whether the plan does all that was wanted."""
    if found.dirs is not None and not found.dirs.reached:
        return False
    return wanted.only_dirs or brokers_reached(found, wanted)


def brokers_reached(found: Suggested, wanted: Wanted) -> bool:
    """Return whether brokers end as was wanted, whatever their log dirs."""
    if wanted.fill:
        return not found.undone and found.filled(wanted.fill, wanted.band)
    if wanted.brokers:
        return not found.undone and found.within(wanted.band)
    if wanted.forces:
        return not found.undone
    return found.within(wanted.band, leaders_only=wanted.leaders_only)


def time_of(
    state: ClusterState,
    load: Load,
    plan: Plan,
    seconds: float | None,
    known: Calibration = NOTHING_LEARNED,
    seconds_left: Callable[[], float] = lambda: inf,
) -> Estimate | None:
    """Return how fast it must be for a deadline, else how long it takes at the rate to begin with.

    `known` is what earlier runs on this cluster taught. None where nothing is copied, and where no
    rate ends. Where `seconds_left` are too few to play the plan out, it is the least time.
    """
    if not any(move.receiving for move in plan):
        return None
    what = copying(state, load, plan)
    needed = PLAYED_SECONDS * len(what.copies) + LAID_OUT_SECONDS * state.partition_count
    if seconds is not None:
        if seconds_left() < DEADLINE_TIMES * needed:
            return _at_least(what, seconds)
        return estimate_within(state, load, plan, seconds, calibration=known)
    if len(what.copies) > MANY or seconds_left() < needed:
        return _at_least(what)
    rates = rate_table(state, load, plan, calibration=known)
    chosen = default_rate(rates)
    return next((row for row in rates if row.rate_bytes_per_s == chosen), None)


def _at_least(what: Copying, deadline_seconds: float = DAY_SECONDS) -> Estimate | None:
    """Return the least time of a plan, at the slowest round rate that ends it until then."""
    for rate in ROUND_RATES:
        least = least_seconds(what, rate)
        if least is not None and (least <= deadline_seconds or rate == ROUND_RATES[-1]):
            return Estimate(rate, least, None, None, None, (), what.total_bytes)
    return None
