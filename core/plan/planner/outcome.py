"""What a suggested plan comes to: whether it does all that was wanted, and how long it takes."""

from __future__ import annotations

from core.cluster.state import ClusterState
from core.load.snapshot import Load
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
DAY_SECONDS = 24 * 3600.0


def is_reached(found: Suggested, wanted: Wanted) -> bool:
    """Return whether the plan does all that was wanted."""
    if wanted.fill:
        return not found.undone and found.filled(wanted.fill, wanted.band)
    if wanted.brokers:
        return not found.undone and found.within(wanted.band)
    if wanted.forces:
        return not found.undone
    return found.within(wanted.band, leaders_only=wanted.leaders_only)


def time_of(state: ClusterState, load: Load, plan: Plan, seconds: float | None) -> Estimate | None:
    """Return how fast it must be for a deadline, else how long it takes at the rate to begin with.

    None where nothing is copied, and where no rate ends.
    """
    if not any(move.receiving for move in plan):
        return None
    if seconds is not None:
        return estimate_within(state, load, plan, seconds)
    what = copying(state, load, plan)
    if len(what.copies) > MANY:
        return _at_least(what)
    rates = rate_table(state, load, plan)
    chosen = default_rate(rates)
    return next((row for row in rates if row.rate_bytes_per_s == chosen), None)


def _at_least(what: Copying) -> Estimate | None:
    """Return the least time of a large plan, at the slowest round rate that ends it in a day."""
    for rate in ROUND_RATES:
        least = least_seconds(what, rate)
        if least is not None and (least <= DAY_SECONDS or rate == ROUND_RATES[-1]):
            return Estimate(rate, least, None, None, None, (), what.total_bytes)
    return None
