"""An adaptive rate: its bounds, as a run starts, and what it is to be next. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.snapshot.manifest import state_broker_loads
from core.plan.copies import Copy, PerSideRates, PlanCopies, Side, build_copies
from core.plan.estimate.calibration import Calibration
from core.plan.estimate.rate_table import default_rate, rate_table
from core.plan.plan import Plan
from core.run.journal.produce_latency import SideObservation, Strain, strain
from core.run.journal.rates import RateBounds, RateControl, SideRate
from core.run.journal.throttle_values import Key, by_broker
from core.run.throttles.inflow import CREDIT_SECONDS, FLOOR_BYTES_PER_S
from core.units import UNLIMITED, format_rate

MIN_BYTES_PER_S = 2_000_000
"""What brokers with little to spare bear better than more: see bench-latency."""
MAX_BYTES_PER_S = 200_000_000
MIN_RATE_INFLOW_FACTOR = 1.5
"""How far above what one partition brings with it the least rate is: below it, it never ends."""


def side_rates(per_side_rates: PerSideRates) -> dict[Key, int]:
    """Return the lower rates of an estimate as a run takes them."""
    return {(side.broker, side.side): rate for side, rate in per_side_rates.items()}


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
    low, high = MIN_BYTES_PER_S, MAX_BYTES_PER_S
    if chosen_bytes_per_s != UNLIMITED:
        low, high = min(low, chosen_bytes_per_s), max(high, chosen_bytes_per_s)
    low = max(low, round(inflow * MIN_RATE_INFLOW_FACTOR))
    return RateBounds(low, max(low, high), spare_rates(state, load))


def expected_rate(
    bounds: RateBounds, state: ClusterState, load: Load, plan: Plan, known: Calibration
) -> int:
    """Return the rate to reckon an adaptive run with: the recommended one, within its bounds."""
    target = default_rate(rate_table(state, load, plan, calibration=known))
    low, high = bounds.min_bytes_per_s, bounds.max_bytes_per_s
    return min(max(target or high, low), high)


def spare_rates(state: ClusterState, load: Load) -> dict[Key, float]:
    """Return what capacity leaves each broker's sides; those without a known one are left out."""
    rates: dict[Key, float] = {}
    if np.isnan(load.in_bytes_per_s).all():
        return rates
    known = state.broker_by_id
    for usage in state_broker_loads(state, load.in_bytes_per_s, load.out_bytes_per_s):
        broker = known.get(usage.broker)
        if broker is None:
            continue
        if broker.out_capacity_bytes_per_s is not None and usage.out_bytes_per_s is not None:
            left = broker.out_capacity_bytes_per_s - usage.out_bytes_per_s
            rates[usage.broker, Side.LEADER] = max(0.0, left)
        if broker.in_capacity_bytes_per_s is not None:
            comes = (usage.leader_in_bytes_per_s or 0.0) + (usage.follower_in_bytes_per_s or 0.0)
            rates[usage.broker, Side.FOLLOWER] = max(0.0, broker.in_capacity_bytes_per_s - comes)
    return rates


NEAR_SHARE = 0.8
"""A side that needs less than this of the longest time left ends early enough as it is."""


def holding_up(
    rates_bytes_per_s: Mapping[Key, int], left_bytes: Mapping[Key, float | None]
) -> frozenset[Key]:
    """Return the sides that need the longest time at their rates for what they have left.

    One of which that is not known may be among them, and is not left out.
    """
    seconds = {
        key: left / rate if rate > 0 else 0.0
        for key, rate in rates_bytes_per_s.items()
        if (left := left_bytes.get(key)) is not None
    }
    longest = max(seconds.values(), default=0.0)
    return frozenset(
        key
        for key in rates_bytes_per_s
        if key not in seconds or seconds[key] >= NEAR_SHARE * longest
    )


RAMP_SECONDS = 1.0
"""How long a raised rate is left before it is raised again."""
RAMP_FACTOR = 1.2
"""How much more than what is wanted may pass while a rate rises."""
CALM_STEP, CAREFUL_STEP = 0.10, 0.05
"""By which part an adaptive rate rises: before there was any trouble, and afterwards."""
CAREFUL_SECONDS = 12.0
"""How long an adaptive rate is watched after trouble before it rises: one quota window."""
TROUBLED_SECONDS = 120.0
"""How long trouble is remembered."""
LATE_STEP, ISR_STEP = 0.7, 0.5
"""What is left of a rate when clients wait longer, and when a follower falls out of step."""
USED_SHARE = 0.7
"""A side that uses less of its rate than this does not hold the run up: it is not raised."""
SPARE_SHARE, BLIND_SHARE = 0.8, 0.5
"""Of a broker's spare capacity: while a probe watches, and while nothing does."""
INFLOW_FACTOR = 1.25
"""How far above what comes in an adaptive rate stays, so that the run ends."""


@dataclass(frozen=True, slots=True)
class RateChange:
    """Rates to set now, and why in one sentence."""

    rates: Mapping[Key, int]
    why: str


def next_rates(
    rate_control: RateControl, observed: Mapping[Key, SideObservation], now: datetime
) -> RateChange | None:
    """Return the next change of rates, or None: what is to be lowered before what may be raised."""
    rates = {key: held.rate_bytes_per_s for key, held in rate_control.rates.items()}
    slowest = holding_up(rates, {key: side.left_bytes for key, side in observed.items()})
    lower: dict[Key, int] = {}
    higher: dict[Key, int] = {}
    reasons: dict[Key, str] = {}
    for key in sorted(rates, key=by_broker):
        held = rate_control.rates[key]
        if held.theirs:
            continue
        if rate_control.floored:
            if key[1] is Side.LEADER:
                continue
            # What it has stays, which a cancel would throw away.
            rate = held.capped_at(FLOOR_BYTES_PER_S)
            reasons[key] = "paused: copies in flight wait on the floor"
        elif rate_control.bounds is not None:
            known = observed.get(key, SideObservation())
            rate, reasons[key] = _adapt(
                rate_control.bounds, key, held, known, now, holds_up=key in slowest
            )
        else:
            target = rate_control.per_side_rates.get(key, rate_control.rate_bytes_per_s)
            target = held.capped_at(target)
            reasons[key] = f"on the way to {format_rate(target)}, little by little"
            if target < rates[key]:
                reasons[key] = f"slowed down to {format_rate(target)}, as asked"
            rate = _next_higher_rate(rates[key], target)
        if held.is_refused(rate):
            continue
        if rate < rates[key]:
            lower[key] = rate
        elif rate > rates[key] and _passed(held.changed_at, now, RAMP_SECONDS):
            higher[key] = rate
    change = lower or higher
    return RateChange(change, reasons[next(iter(change))]) if change else None


def _next_higher_rate(rate: int, target: int) -> int:
    """Return the next step on the way up: at most a tenth of what is wanted, ever less.

    While a rate r rises, r + 11.5 s x its rise passes: that is kept below what is wanted and a
    fifth, so that 3 s never bring 4 s' worth. From the floor it takes about 20 s.
    """
    step = (RAMP_FACTOR * target - rate) / CREDIT_SECONDS
    return min(target, rate + max(1, round(min(step, target / 10))))


def _adapt(
    bounds: RateBounds,
    key: Key,
    held: SideRate,
    observed: SideObservation,
    now: datetime,
    *,
    holds_up: bool,
) -> tuple[int, str]:
    """Return the adaptive rate of one side: a tenth more while all is calm, much less at once.

    Only a side that holds the run up gets more.
    """
    rate = held.rate_bytes_per_s
    ends_at = round(observed.inflow_bytes_per_s * INFLOW_FACTOR)
    low = held.capped_at(min(bounds.max_bytes_per_s, max(bounds.min_bytes_per_s, ends_at)))
    high = max(held.capped_at(_ceiling(bounds, key, observed)), low)
    if rate > high:
        return high, _above(bounds, key, high)
    if rate < low:
        return _next_higher_rate(rate, low), f"{_name(key)} gets {format_rate(low)} at least"
    side_strain, trouble = strain(observed, held.changed_at), held.troubled_at
    careful = trouble is not None and not _passed(trouble, now, TROUBLED_SECONDS)
    watched = _passed(held.changed_at, now, CAREFUL_SECONDS)
    used = observed.flow_bytes_per_s + observed.inflow_bytes_per_s
    needs = holds_up and rate < high and used >= USED_SHARE * rate
    match side_strain:
        case Strain.OUT_OF_STEP if trouble is None or _passed(trouble, now, CAREFUL_SECONDS):
            why = f"{_name(key)} slows down: {observed.out_of_step}"
            return max(low, round(rate * ISR_STEP)), why
        case Strain.LATE:
            ratio = f"{observed.latency_ratio or 0:.1f}"
            why = f"{_name(key)} slows down: producers wait {ratio} times as long as before"
            return max(low, round(rate * LATE_STEP)), why
        case Strain.CALM | Strain.UNKNOWN if needs:
            if not watched and (careful or side_strain is Strain.UNKNOWN):
                return rate, ""
            step = CAREFUL_STEP if careful else CALM_STEP
            why = "producers wait no longer than before"
            if side_strain is Strain.UNKNOWN:
                why = f"it has {format_rate(bounds.spare_bytes_per_s.get(key, 0.0))} to spare"
            raised = min(high, max(rate + 1, round(rate * (1 + step))))
            return raised, f"{_name(key)} may {_DOES[key[1]]} more: {why}"
        case _:
            return rate, ""


def _ceiling(bounds: RateBounds, key: Key, observed: SideObservation) -> int:
    """Return the most that a side may get; while nothing tells how it fares, the least."""
    blind, spare = observed.before is None, bounds.spare_bytes_per_s.get(key)
    if spare is None:
        return bounds.min_bytes_per_s if blind else bounds.max_bytes_per_s
    high = min(bounds.max_bytes_per_s, round(spare * (BLIND_SHARE if blind else SPARE_SHARE)))
    return max(bounds.min_bytes_per_s, high)


def _above(bounds: RateBounds, key: Key, high: int) -> str:
    if high == bounds.max_bytes_per_s:
        return f"{_name(key)} gets {format_rate(high)} at most"
    spare = bounds.spare_bytes_per_s.get(key)
    if spare is None:
        return f"nothing tells how {_name(key)} fares: it keeps to {format_rate(high)}"
    return f"{_name(key)} has {format_rate(spare)} to spare"


def _passed(since: datetime, now: datetime, seconds: float) -> bool:
    """Return whether so long has passed; a clock that was set back holds nothing up."""
    return now < since or now - since >= timedelta(seconds=seconds)


_DOES = {Side.LEADER: "send", Side.FOLLOWER: "receive", Side.LOG_DIRS: "copy between log dirs"}
_DOING = {
    Side.LEADER: "sending",
    Side.FOLLOWER: "receiving",
    Side.LOG_DIRS: "copying between log dirs",
}


def _name(key: Key) -> str:
    return f"b{key[0]} {_DOING[key[1]]}"
