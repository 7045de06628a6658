"""How long a plan takes at a rate, and which rate a deadline needs, for each broker and side.

`required` is the closed form that a deadline needs; `seconds` is what brokers' quotas make of a
rate, from the start of an apply to its end; `recommended` is the least rate whose `seconds` fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import (
    NO_PER_SIDE_RATES,
    SWAP_SECONDS,
    BrokerSide,
    PerSideRates,
    Side,
    SideLoad,
    slow_seconds,
)
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibrated, Calibration
from core.plan.estimate.estimate_text import (
    explain_never,
    explain_no_rate,
    explain_not_counted,
    explain_risk,
    explain_unknown,
    format_slowest_link,
)
from core.plan.estimate.near_capacity import NearCapacity, find_near_capacity
from core.plan.estimate.required_rates import choose_rates, min_rate
from core.plan.estimate.trace import Trace
from core.plan.estimate.uncertainty import (
    AROUND_RANGE,
    AROUND_SECONDS,
    START_SECONDS,
    Task,
    TimeRange,
)
from core.plan.plan import Plan
from core.units import UNLIMITED, format_rate, name_list


@dataclass(frozen=True, slots=True)
class SideRow:
    """One broker and side: what it has to carry, and until when.

    `background_bytes_per_s` is ordinary replication of the moving partitions in this quota: what
    in-sync followers fetch, and what is produced meanwhile and must reach the new replicas. Both
    are the least where something of it is unknown.
    """

    broker: int
    side: Side
    bytes: int
    background_bytes_per_s: float
    required_bytes_per_s: float | None
    seconds: float | None
    sizes_unknown: bool = False
    rates_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan takes at one rate; `limit` is the broker and side that everything waits for.

    `seconds` is None when it never ends (`never` says why) or is not known (`note` says why).
    """

    rate_bytes_per_s: int
    seconds: float | None
    range_seconds: tuple[float, float] | None
    never: str | None
    limit: BrokerSide | None
    rows: tuple[SideRow, ...]
    total_bytes: int
    recommended_bytes_per_s: int | None = None
    note: str = ""
    calibration: Calibrated | None = None
    """How times were put right by earlier runs; None when they are the model's own."""
    near_capacity: NearCapacity | None = None
    """Who comes nearest to its capacity at that rate, None when nobody does or it is not known."""
    trace: Trace | None = field(default=None, repr=False, compare=False)
    """How copying went in the usual case; None where it was not simulated, or never ends."""
    per_side_rates: PerSideRates = field(default_factory=dict)
    """Lower rates of brokers and sides for which they will do; `seconds` are with them."""

    @property
    def timed_bytes_per_s(self) -> int:
        """Return the rate to which `seconds` belong: the one recommended, else the one asked of."""
        return self.recommended_bytes_per_s or self.rate_bytes_per_s

    def limit_of(self, broker: int, side: Side) -> int:
        """Return the rate that a broker and side is limited to, in bytes/s."""
        return self.per_side_rates.get(BrokerSide(broker, side), self.timed_bytes_per_s)


def estimate_at(
    state: ClusterState,
    load: Load,
    plan: Plan,
    rate_bytes_per_s: int,
    *,
    max_extra_bytes: int | None = None,
    calibration: Calibration = NOTHING_LEARNED,
) -> Estimate:
    """Return how long `plan` takes when each broker and side is limited to a rate.

    `UNLIMITED` needs known capacities, or runs without a throttle to learn from.
    """
    return estimate_task(Task.of(state, load, plan, max_extra_bytes), rate_bytes_per_s, calibration)


def estimate_within(
    state: ClusterState,
    load: Load,
    plan: Plan,
    seconds: float,
    *,
    max_extra_bytes: int | None = None,
    calibration: Calibration = NOTHING_LEARNED,
) -> Estimate:
    """Return the rate that `plan` needs to end within `seconds` of wall time.

    `rate_bytes_per_s` is the closed form's largest; `recommended_bytes_per_s` is the least whose
    whole range fits, to which `seconds` and `range_seconds` belong, or up to a fifth more where
    those in `per_side_rates` then keep the deadline with much less. When no rate fits, `never` says
    so; what cannot be known (a size) is no never.
    """
    task = Task.of(state, load, plan, max_extra_bytes)
    if not task.loads:
        return estimate_task(task, UNLIMITED, calibration)
    needed = max(1, *(math.ceil(load.required_bytes_per_s(seconds)) for load in task.loads))
    if not task.known:
        return estimate_task(task, needed, calibration)
    limit = _limiting_side(side_rows(task.what.side_loads, seconds, {}))
    learned = calibration.sides.get(limit.side) if limit is not None else None
    recommended = min_rate(task, seconds, learned)
    if recommended is None:
        estimate = estimate_task(task, needed, calibration, deadline_seconds=seconds)
        limited = f"the links give about {format_rate(task.link_bytes_per_s)}"
        if task.link_known:
            limited = format_slowest_link(task.what.side_loads, task.room)
        reason = estimate.never or explain_no_rate(
            estimate.total_bytes, seconds, AROUND_RANGE[1], limited
        )
        return replace(estimate, rate_bytes_per_s=needed, never=reason, seconds=None)
    chosen = choose_rates(task, recommended, seconds, learned)
    rate, per_side = chosen.bytes_per_s, chosen.rates
    estimate = estimate_task(
        task, rate, calibration, deadline_seconds=seconds, per_side_rates=per_side
    )
    return replace(estimate, rate_bytes_per_s=needed, recommended_bytes_per_s=rate)


def estimate_per_side(
    state: ClusterState,
    load: Load,
    plan: Plan,
    plain: Estimate,
    *,
    calibration: Calibration = NOTHING_LEARNED,
) -> Estimate | None:
    """Return the estimate with lower rates of sides for which they will do, None without any.

    With them it ends within the range of `plain`, the estimate at the same rate for all.
    """
    rate = plain.rate_bytes_per_s
    if rate == UNLIMITED or plain.range_seconds is None or plain.limit is None:
        return None
    task, learned = Task.of(state, load, plan), calibration.sides.get(plain.limit.side)
    rates = choose_rates(task, rate, plain.range_seconds[1], learned, raises=(1.0,)).rates
    return estimate_task(task, rate, calibration, per_side_rates=rates) if rates else None


def estimate_task(
    task: Task,
    rate: int,
    calibration: Calibration,
    *,
    deadline_seconds: float | None = None,
    per_side_rates: PerSideRates = NO_PER_SIDE_RATES,
) -> Estimate:
    """Return how long a task takes at a rate; required rates are of a deadline, if one is given."""
    estimate = replace(
        _copied(task, rate, per_side_rates, calibration, deadline_seconds),
        per_side_rates=per_side_rates,
    )
    if task.dirs:
        estimate = _with_dirs(estimate, task, rate, deadline_seconds)
    return replace(estimate, near_capacity=find_near_capacity(task.bearings, rate, per_side_rates))


def _with_dirs(
    estimate: Estimate, task: Task, rate: int, deadline_seconds: float | None
) -> Estimate:
    """Return an estimate with what brokers copy between their log dirs, side by side with it."""
    dirs = task.dirs
    notes = [estimate.note] if estimate.note else []
    never, seconds, between = estimate.never, estimate.seconds, estimate.range_seconds
    calibrated = estimate.calibration
    ends = dirs.seconds(rate, estimate.per_side_rates) if rate != UNLIMITED else {}
    limit = estimate.limit
    if dirs.unknown:
        notes.append(f"The size of {name_list(dirs.unknown)} is not known.")
    if dirs.loads_unknown and dirs.loads_unknown != task.what.loads_unknown:
        notes.append(explain_not_counted(dirs.loads_unknown))
    if dirs.down is not None:
        never = never or f"Broker {dirs.down} is down: its log dirs wait until it is back."
    elif rate == UNLIMITED and not dirs.unknown:
        notes.append("How fast brokers copy between their log dirs without a throttle is unknown.")
    elif never is None and rate != UNLIMITED and not all(map(math.isfinite, ends.values())):
        limit, never = explain_never(dirs.sides, rate)
    trace = estimate.trace
    if never or dirs.unknown or rate == UNLIMITED:
        seconds = between = calibrated = trace = None
    elif seconds is not None and between is not None:
        longest = max(ends.values(), default=0.0)
        if longest + AROUND_SECONDS > seconds:
            calibrated = None  # it is not what was learned that is waited for
        seconds = max(seconds, longest + AROUND_SECONDS)
        between = (
            max(between[0], longest - SWAP_SECONDS + AROUND_RANGE[0]),
            max(between[1], slow_seconds(longest) + AROUND_RANGE[1]),
        )
    own_seconds = seconds if calibrated is None else calibrated.seconds
    rows = estimate.rows + side_rows(dirs.sides, deadline_seconds or own_seconds, ends)
    return replace(
        estimate,
        seconds=seconds,
        range_seconds=between,
        never=never,
        limit=limit if never else _limiting_side(rows),
        rows=rows,
        total_bytes=estimate.total_bytes + dirs.total_bytes,
        note=" ".join(notes),
        calibration=calibrated,
        trace=trace,
    )


def _copied(
    task: Task,
    rate: int,
    per_side_rates: PerSideRates,
    calibration: Calibration,
    deadline_seconds: float | None,
) -> Estimate:
    what = task.what
    loads = what.side_loads
    if not what.copies:
        return Estimate(rate, AROUND_SECONDS, AROUND_RANGE, None, None, (), 0)
    notes = explain_unknown(what)
    never = what.blocked
    if never is None and rate != UNLIMITED and rate <= 0:
        never = "A rate of 0 moves nothing."
    limit: BrokerSide | None = None
    time_range: TimeRange | None = None
    calibrated: Calibrated | None = None
    if never or what.sizes_unknown:
        pass
    elif rate == UNLIMITED and not task.link_known:
        speed = calibration.speed
        time_range = None if speed is None else speed.on(what)
        if speed is None or time_range is None:
            notes.append(
                "Without a throttle it takes what links and disks give, which is not known; "
                "configure in_capacity and out_capacity for an answer."
            )
        else:
            calibrated = Calibrated(speed.runs, None, None, None)
    else:
        time_range = task.spread(rate, per_side_rates)
        if time_range.never:
            limit, never = explain_never(loads, rate, task.room)
        else:
            slowest = _limiting_side(side_rows(loads, deadline_seconds or time_range.seconds, {}))
            learned = calibration.sides.get(slowest.side) if slowest is not None else None
            if learned is not None and rate != UNLIMITED:
                own = time_range.seconds, time_range.range_seconds
                calibrated = Calibrated(learned.runs, learned.factor, *own)
                time_range = learned.on(time_range)
            if time_range.risk:
                notes.append(explain_risk(loads, rate))
    ending = None if time_range is None or time_range.never else time_range
    seconds = None if ending is None else ending.seconds
    own_seconds = calibrated.seconds if calibrated is not None else seconds
    rows = side_rows(loads, deadline_seconds or own_seconds, time_range.ends if time_range else {})
    return Estimate(
        rate,
        seconds,
        None if ending is None else ending.range_seconds,
        never,
        limit or _limiting_side(rows),
        rows,
        what.total_bytes,
        note=" ".join(notes),
        calibration=calibrated,
        trace=None if ending is None else ending.trace,
    )


def side_rows(
    loads: Mapping[BrokerSide, SideLoad],
    deadline_seconds: float | None,
    ends: Mapping[BrokerSide, float],
) -> tuple[SideRow, ...]:
    """Return what each broker and side has to carry, and until when as far as that is known."""
    return tuple(
        SideRow(
            broker=side.broker,
            side=side.side,
            bytes=round(load.bytes),
            background_bytes_per_s=load.background,
            required_bytes_per_s=load.required_bytes_per_s(deadline_seconds)
            if deadline_seconds
            else None,
            seconds=START_SECONDS + end if math.isfinite(end := ends.get(side, math.inf)) else None,
            sizes_unknown=load.sizes_unknown,
            rates_unknown=load.rates_unknown,
        )
        for side, load in loads.items()
    )


def _limiting_side(rows: Sequence[SideRow]) -> BrokerSide | None:
    if not rows:
        return None
    worst = max(
        rows,
        # Of two alike the leader: which it is must not hang on the numbers of brokers.
        key=lambda row: (row.required_bytes_per_s or 0.0, row.bytes, row.side is Side.LEADER),
    )
    return BrokerSide(worst.broker, worst.side)
