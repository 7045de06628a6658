"""How long a plan takes at a rate, and which rate a deadline needs, for each broker and side.

Three things: `required` is the closed form that a deadline needs of one broker and
side; `seconds` is what brokers' quotas make of a rate (core.plan.replication), with a range;
`recommended` is the least rate whose `seconds` fit. Wall time is from the start of an apply to
its end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.copying import BrokerSide, Copying, Side, SideLoad, copying, side_loads
from core.plan.estimate_words import never_ends, notes_of
from core.plan.in_batches import batched, is_busy
from core.plan.plan import Plan
from core.plan.replication import Conditions, end_seconds
from core.units import UNLIMITED, format_bytes, format_rate

START_SECONDS = 1.8
"""From the start of an apply until brokers copy: preflight, journal, throttles read back."""
END_SECONDS = 0.8
"""From the last byte until the apply ends: the last poll, throttles restored."""
LINK_BYTES_PER_S = 300e6
"""What one fetcher is taken to get unthrottled, where no capacity is configured."""
USUAL_CUT = 1.01
"""How often a byte is counted with batches of 15 kB; 1.06 with 100 kB and with 1 MB."""
CUTS = (1.0, 1.06)
"""The least and the most that the range covers; batches of half a fetch (600 kB) reach 1.8."""
PHASES = (0.35, 0.05, 0.95)
"""Where in a second brokers' samples may begin: the middle first, then the extremes."""
MANY_FLOWS = 24
"""From here on one play-through must do: an estimate is made at each key press."""
MARGIN = 0.02
"""What two runs of the same plan differ by."""
ROUND_RATES = tuple(int(step * 10**power) for power in range(3, 11) for step in (1, 2, 5))
TABLE_ROWS = 8
SOON_SECONDS = 600.0
AT_ONCE_SECONDS = 60.0
GENTLE_BYTES_PER_S = 10_000_000
"""A rate that no broker feels beside what it does anyway."""


@dataclass(frozen=True, slots=True)
class SideRow:
    """One broker and side: what it has to carry, and until when.

    `background_bytes_per_s` is ordinary replication of the moving partitions in this quota: what
    in-sync followers fetch, and what is produced meanwhile and must reach the new replicas.
    """

    broker: int
    side: Side
    bytes: int
    background_bytes_per_s: float
    required_bytes_per_s: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan takes at one rate.

    `seconds` is None when it never ends (`never` says why) or is not known (`note` says why).
    `limit` is the broker and side that everything waits for.
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


def estimate_at(state: ClusterState, load: Load, plan: Plan, rate_bytes_per_s: int) -> Estimate:
    """Return how long `plan` takes when each broker and side is limited to a rate.

    `UNLIMITED` is answered only where capacities of the brokers concerned are known.
    """
    what = copying(state, load, plan)
    estimate = _at(what, state, rate_bytes_per_s)
    if (
        estimate.rows
        and not (what.blocked or what.sizes_unknown)
        and is_busy(what, rate_bytes_per_s)
    ):
        return _in_batches(state, load, plan, what, estimate)
    return estimate


def estimate_within(state: ClusterState, load: Load, plan: Plan, seconds: float) -> Estimate:
    """Return the rate that `plan` needs to end within `seconds` of wall time.

    `rate_bytes_per_s` is the closed form's largest; `recommended_bytes_per_s` is the least whose
    simulated time fits, to which `seconds` and `range_seconds` belong. When no rate fits,
    `never` says so.
    """
    what = copying(state, load, plan)
    if not what.copies:
        return _at(what, state, UNLIMITED)
    loads = side_loads(what).values()
    needed = math.ceil(max(load.required_bytes_per_s(seconds) for load in loads))
    recommended = _least_rate(what, state, seconds)
    if recommended is None:
        estimate = _at(what, state, needed)
        reason = estimate.never or (
            f"No rate moves {format_bytes(what.total_bytes)} in {seconds:g} s: "
            f"the links give about {format_rate(_link(what, state) or LINK_BYTES_PER_S)}."
        )
        return replace(estimate, rate_bytes_per_s=needed, never=reason, seconds=None)
    return replace(
        _at(what, state, recommended, deadline_seconds=seconds),
        rate_bytes_per_s=needed,
        recommended_bytes_per_s=recommended,
    )


def rate_table(state: ClusterState, load: Load, plan: Plan) -> tuple[Estimate, ...]:
    """Return estimates at round rates, slowest first; a rate that never ends begins, if any."""
    what = copying(state, load, plan)
    if not what.copies or what.blocked or what.sizes_unknown:
        return ()
    link = _link(what, state) or LINK_BYTES_PER_S
    floor = max(load.background for load in side_loads(what).values())
    largest = max(load.bytes for load in side_loads(what).values())
    least = max(floor * 0.99, largest / (24 * 3600))
    rates = [rate for rate in ROUND_RATES if least <= rate <= link]
    below = [rate for rate in ROUND_RATES if rate < least]
    if floor > 0 and below:
        rates.insert(0, below[-1])
    useful = [rate for rate in rates if largest / rate > 2.0]
    chosen = useful[-TABLE_ROWS:] if len(useful) > 1 else rates[:2]
    return tuple(_at(what, state, rate) for rate in chosen)


def default_rate(table: Sequence[Estimate]) -> int | None:
    """Return the rate to begin with, None when none ends.

    The slowest that is done in a minute if it is gentle enough for any broker, else the slowest
    that is done in ten minutes, else the fastest.
    """
    ending = [(row.rate_bytes_per_s, row.seconds) for row in table if row.seconds is not None]
    at_once = [rate for rate, seconds in ending if seconds <= AT_ONCE_SECONDS]
    if at_once and at_once[0] <= GENTLE_BYTES_PER_S:
        return at_once[0]
    soon = [rate for rate, seconds in ending if seconds <= SOON_SECONDS]
    if soon:
        return soon[0]
    return ending[-1][0] if ending else None


def to_json(estimate: Estimate) -> dict[str, Any]:
    """Return the document of `trimtab estimate --json`."""
    limit = estimate.limit
    return {
        "seconds": _rounded(estimate.seconds),
        "range_seconds": None
        if estimate.range_seconds is None
        else [_rounded(second) for second in estimate.range_seconds],
        "never": estimate.never,
        "note": estimate.note or None,
        "rate_bytes_per_s": estimate.rate_bytes_per_s,
        "recommended_bytes_per_s": estimate.recommended_bytes_per_s,
        "total_bytes": estimate.total_bytes,
        "limit": None if limit is None else {"broker": limit.broker, "side": limit.side.value},
        "rows": [
            {
                "broker": row.broker,
                "side": row.side.value,
                "bytes": row.bytes,
                "background_bytes_per_s": row.background_bytes_per_s,
                "required_bytes_per_s": row.required_bytes_per_s,
                "seconds": _rounded(row.seconds),
            }
            for row in estimate.rows
        ],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


# -- the simulation ------------------------------------------------------------------------------


def _at(
    what: Copying, state: ClusterState, rate: int, *, deadline_seconds: float | None = None
) -> Estimate:
    loads = side_loads(what)
    if not what.copies:
        seconds = START_SECONDS + END_SECONDS
        return Estimate(rate, seconds, (seconds / 2, seconds * 1.5), None, None, (), 0)
    notes = notes_of(what)
    link = _link(what, state)
    never = what.blocked
    if never is None and rate != UNLIMITED and rate <= 0:
        never = "A rate of 0 moves nothing."
    if never or what.sizes_unknown or (rate == UNLIMITED and link is None):
        if never is None and not what.sizes_unknown:
            notes.append(
                "Without a throttle it takes what links and disks give, which is not known; "
                "configure in_capacity and out_capacity for an answer."
            )
        rows = _rows(loads, deadline_seconds, {})
        return Estimate(
            rate, None, None, never, _limit(rows), rows, what.total_bytes, note=" ".join(notes)
        )
    ends = _played(what, rate, link or LINK_BYTES_PER_S, PHASES[0])
    last = max(ends)
    side_ends = _side_ends(what, ends)
    if math.isinf(last):
        rows = _rows(loads, deadline_seconds, side_ends)
        limit, reason = never_ends(loads, rate)
        return Estimate(
            rate, None, None, reason, limit, rows, what.total_bytes, note=" ".join(notes)
        )
    seconds, range_seconds = _range(what, rate, link or LINK_BYTES_PER_S, last)
    rows = _rows(loads, deadline_seconds or seconds, side_ends)
    note, total = " ".join(notes), what.total_bytes
    return Estimate(rate, seconds, range_seconds, None, _limit(rows), rows, total, note=note)


def _in_batches(
    state: ClusterState, load: Load, plan: Plan, what: Copying, at_once: Estimate
) -> Estimate:
    """Return the estimate of a busy plan's batches; the same where they are one, or never end."""
    rate = float(at_once.rate_bytes_per_s)
    conditions = Conditions(rate, rate, _link(what, state) or LINK_BYTES_PER_S, USUAL_CUT)
    found = batched(state, load, plan, what, at_once.rate_bytes_per_s, conditions)
    if found is None or found.batches == 1:
        return at_once
    rows = _rows(side_loads(what), found.seconds, found.ends)
    around = START_SECONDS + END_SECONDS
    low, high = found.least_seconds * (1 - MARGIN), found.most_seconds * (1 + MARGIN)
    return replace(
        at_once,
        seconds=found.seconds + around,
        range_seconds=(low + around / 2, high + found.batches * around),
        never=None,
        limit=_limit(rows),
        rows=rows,
    )


def _played(what: Copying, rate: int, link: float, phase: float) -> list[float]:
    quota = math.inf if rate == UNLIMITED else float(rate)
    return end_seconds(
        what.copies, what.idle_seconds, Conditions(quota, quota, link, USUAL_CUT, phase)
    )


def _range(what: Copying, rate: int, link: float, last: float) -> tuple[float, tuple[float, float]]:
    """Return wall seconds and their range over what is not known: phases and batch sizes."""
    ends = [last]
    if len(what.idle_seconds) <= MANY_FLOWS:
        ends += [max(_played(what, rate, link, phase)) for phase in PHASES[1:]]
    ends = [end for end in ends if math.isfinite(end)]
    around = START_SECONDS + END_SECONDS
    return median(ends) + around, (
        min(ends) * CUTS[0] / USUAL_CUT * (1 - MARGIN) + around / 2,
        max(ends) * CUTS[1] / USUAL_CUT * (1 + MARGIN) + around * 1.5,
    )


def _least_rate(what: Copying, state: ClusterState, seconds: float) -> int | None:
    """Return the least rate that ends in `seconds`, to 1 %; None when not even the link's does."""
    link = _link(what, state) or LINK_BYTES_PER_S
    fits = seconds - START_SECONDS - END_SECONDS
    if what.blocked or what.sizes_unknown or not what.copies or fits <= 0:
        return None

    def ends_at(rate: float) -> float:
        return max(_played(what, round(rate), link, PHASES[0]))

    slow, fast = 1.0, max(load.required_bytes_per_s(fits) for load in side_loads(what).values())
    while ends_at(fast) > fits:
        slow, fast = fast, fast * 1.5
        if fast > 4 * link * len(what.copies):
            return None
    slow = max(slow, fast / 3)
    while fast - slow > fast * 0.01:
        middle = (slow + fast) / 2
        slow, fast = (slow, middle) if ends_at(middle) <= fits else (middle, fast)
    # The bisection knows one phase; what is recommended should fit in most.
    for _ in range(20):
        if _range(what, math.ceil(fast), link, ends_at(fast))[0] <= seconds:
            break
        fast *= 1.01
    return math.ceil(fast)


def _link(what: Copying, state: ClusterState) -> float | None:
    """Return the least capacity among the brokers concerned, None when one is not configured."""
    known = state.broker_by_id
    senders = {c.leader for c in what.copies} & known.keys()
    receivers = {c.destination for c in what.copies} & known.keys()
    capacities = [known[b].out_capacity_bytes_per_s for b in senders]
    capacities += [known[b].in_capacity_bytes_per_s for b in receivers]
    found = [capacity for capacity in capacities if capacity is not None]
    return min(found) if found and len(found) == len(capacities) else None


def _side_ends(what: Copying, ends: Sequence[float]) -> dict[BrokerSide, float]:
    latest: defaultdict[BrokerSide, float] = defaultdict(float)
    for copy, end in zip(what.copies, ends, strict=True):
        for side in copy.sides:
            latest[side] = max(latest[side], end)
    return latest


def _rows(
    loads: dict[BrokerSide, SideLoad],
    deadline_seconds: float | None,
    ends: dict[BrokerSide, float],
) -> tuple[SideRow, ...]:
    return tuple(
        SideRow(
            broker=side.broker,
            side=side.side,
            bytes=round(load.bytes),
            background_bytes_per_s=load.background,
            required_bytes_per_s=load.required_bytes_per_s(deadline_seconds)
            if deadline_seconds
            else None,
            seconds=START_SECONDS + ends[side]
            if side in ends and math.isfinite(ends[side])
            else None,
        )
        for side, load in loads.items()
    )


def _limit(rows: Sequence[SideRow]) -> BrokerSide | None:
    if not rows:
        return None
    worst = max(rows, key=lambda row: (row.required_bytes_per_s or 0.0, row.bytes))
    return BrokerSide(worst.broker, worst.side)
