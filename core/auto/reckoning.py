"""What a run of a plan would be: the bounds of its rate, and how long it takes. Pure."""

from __future__ import annotations

from core.auto.observed import Observed
from core.auto.settings import Settings
from core.plan.estimate.estimate import Estimate, estimate_at, estimate_within
from core.plan.plan import Plan
from core.run.journal.rates import Bounds
from core.run.throttles.rate_bounds import expected_rate, usual_bounds


def reckoned(settings: Settings, observed: Observed, plan: Plan) -> tuple[Bounds, Estimate]:
    """Return how a run that adapts its rate is bounded, and its estimate; there is a load.

    It is reckoned with the usual rate, or with the one that ends it before hours in which nothing
    is begun, as far as the bounds let it.
    """
    assert observed.sight is not None
    state, load, known = observed.state, observed.sight.load, observed.known
    bounds = usual_bounds(state, load, plan)
    rate = expected_rate(bounds, state, load, plan, known)
    usual = estimate_at(state, load, plan, rate, calibration=known)
    late, left = lateness(settings, observed, usual)
    if not late:
        return bounds, usual
    most = bounds.most_bytes_per_s
    faster = estimate_within(state, load, plan, left, calibration=known).recommended_bytes_per_s
    rate = max(rate, min(faster or most, most))
    return bounds, estimate_at(state, load, plan, rate, calibration=known)


def lateness(settings: Settings, observed: Observed, estimate: Estimate) -> tuple[float, float]:
    """Return how long a run may go on into hours in which nothing is begun, and when they come.

    Seconds, from now. One that never ends, or of which nobody knows when, is not late.
    """
    if estimate.range_seconds is None:
        return 0.0, 0.0
    _, most = estimate.range_seconds
    left = settings.free_seconds(observed.now, most)
    return most - left, left
