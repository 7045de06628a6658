"""The bounds of an adaptive rate: what is safe to begin with, and what brokers have to spare.

Pure; decided where load and capacities are known, before a run is started.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.snapshot.aggregates import state_broker_loads
from core.plan.copies import Copy, PerSideRates, PlanCopies, build_copies
from core.plan.estimate.calibration import Calibration
from core.plan.estimate.rate_table import default_rate, rate_table
from core.plan.plan import Plan
from core.run.journal.rates import Key, RateBounds
from core.run.journal.throttle_values import Side
from core.units import UNLIMITED

MIN_BYTES_PER_S = 2_000_000
"""What brokers with little to spare bear better than more: see bench-latency."""
MAX_BYTES_PER_S = 200_000_000
INFLOW_FACTOR = 1.5
"""How far above what one partition brings with it the least rate is: below it, it never ends."""


def side_rates(per_side_rates: PerSideRates) -> dict[Key, int]:
    """Return the lower rates of an estimate as a run takes them."""
    return {(one.broker, Side(one.side.value)): rate for one, rate in per_side_rates.items()}


def usual_bounds(
    state: ClusterState, load: Load, plan: Plan, chosen_bytes_per_s: int = UNLIMITED
) -> RateBounds:
    """Return the bounds for a plan when nobody has said any.

    A rate that was chosen is within them, unless what is produced meanwhile needs a higher one.
    """
    by_partition: defaultdict[TopicPartition, list[Copy]] = defaultdict(list)
    for copy in build_copies(state, load, plan).copies:
        by_partition[copy.tp].append(copy)
    alone = [PlanCopies(tuple(copies), {}).side_loads for copies in by_partition.values()]
    inflow = max((side.background for sides in alone for side in sides.values()), default=0.0)
    least, most = MIN_BYTES_PER_S, MAX_BYTES_PER_S
    if chosen_bytes_per_s != UNLIMITED:
        least, most = min(least, chosen_bytes_per_s), max(most, chosen_bytes_per_s)
    least = max(least, round(inflow * INFLOW_FACTOR))
    return with_spare(RateBounds(least, max(least, most)), state, load)


def expected_rate(
    bounds: RateBounds, state: ClusterState, load: Load, plan: Plan, known: Calibration
) -> int:
    """Return the rate to reckon an adaptive run with: the recommended one, within its bounds."""
    wanted = default_rate(rate_table(state, load, plan, calibration=known))
    least, most = bounds.min_bytes_per_s, bounds.max_bytes_per_s
    return min(max(wanted or most, least), most)


def with_spare(bounds: RateBounds, state: ClusterState, load: Load) -> RateBounds:
    """Return bounds that know what capacity leaves each broker, as far as that is known."""
    return replace(bounds, spare_bytes_per_s=spare(state, load))


def spare(state: ClusterState, load: Load) -> dict[Key, float]:
    """Return what capacity leaves each broker's sides; those without a known one are left out."""
    found: dict[Key, float] = {}
    if np.isnan(load.in_bytes_per_s).all():
        return found
    known = state.broker_by_id
    for one in state_broker_loads(state, load.in_bytes_per_s, load.out_bytes_per_s):
        broker = known.get(one.broker)
        if broker is None:
            continue
        if broker.out_capacity_bytes_per_s is not None and one.out_bytes_per_s is not None:
            left = broker.out_capacity_bytes_per_s - one.out_bytes_per_s
            found[one.broker, Side.LEADER] = max(0.0, left)
        if broker.in_capacity_bytes_per_s is not None:
            comes = (one.leader_in_bytes_per_s or 0.0) + (one.follower_in_bytes_per_s or 0.0)
            found[one.broker, Side.FOLLOWER] = max(0.0, broker.in_capacity_bytes_per_s - comes)
    return found
