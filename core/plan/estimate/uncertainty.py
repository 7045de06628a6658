"""Uncertainty of a plan's duration: one simulation for each case of what is unknown.

Near a limit a few percent more of what is produced cost a whole quota window, so a range is what
the cases come to, and no percentage of the time itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.batch_schedule import CopyBatches
from core.plan.batches import BatchInput
from core.plan.copies import (
    NO_PER_SIDE_RATES,
    BrokerSide,
    LogDirCopies,
    PerSideRates,
    PlanCopies,
    SideLoad,
    build_copies,
    build_log_dir_copies,
)
from core.plan.estimate.average_rates import Conditions
from core.plan.estimate.fetch_simulation import simulate_copies
from core.plan.estimate.near_capacity import SideUsage, link_room, side_usages
from core.plan.estimate.trace import Trace
from core.plan.plan import Plan
from core.units import UNLIMITED

START_SECONDS = 1.8
"""From the start of an apply until brokers copy: preflight, journal, throttles read back."""
END_SECONDS = 0.8
"""From the last byte until the apply ends: the last poll, throttles restored."""
AROUND_SECONDS = START_SECONDS + END_SECONDS
AROUND_RANGE = (0.5 * AROUND_SECONDS, 1.5 * AROUND_SECONDS)
LINK_BYTES_PER_S = 300e6
"""What one fetcher is taken to get unthrottled, where no capacity is configured."""
USUAL_CUT = 1.01
"""How often a byte is counted with batches of 15 kB; 1.06 with 100 kB and with 1 MB."""
CUTS = (1.0, 1.06)
"""The least and the most that the range covers; batches of half a fetch (600 kB) reach 1.8."""
INFLOWS = (0.95, 1.05)
"""What is produced while a plan runs, over what a snapshot told of it, where the load is steady."""
PHASES = (0.35, 0.05, 0.95)
"""Where in a second brokers' samples may begin: the middle first, then the extremes."""
MANY_FLOWS = 24
"""From here on three simulations must do: an estimate is made at each key press."""
MARGIN = 0.02
"""What two runs of the same plan differ by."""


class Case(NamedTuple):
    """One way in which what is not known may turn out; `inflow` is a factor."""

    phase: float = PHASES[0]
    cut: float = USUAL_CUT
    inflow: float = 1.0


USUAL = Case()
QUICK, SLOW = (Case(PHASES[0], *both) for both in zip(CUTS, INFLOWS, strict=True))


@dataclass(frozen=True)
class Task:
    """A plan to be timed, and what brokers copy for it."""

    state: ClusterState
    load: Load
    plan: Plan
    what: PlanCopies
    link_bytes_per_s: float
    """What one fetcher gets at the most: the greatest capacity where all are known."""
    link_known: bool
    dirs: LogDirCopies = field(default_factory=LogDirCopies)
    """What brokers copy between their own log dirs, side by side with that."""
    max_extra_bytes: int | None = None
    """What a destination may receive at a time; None is no limit."""
    bearings: tuple[SideUsage, ...] = ()
    room: Mapping[BrokerSide, float] = field(default_factory=dict)
    """What brokers can send and take in for it, as far as capacities are configured."""
    fastest_bytes_per_s: float = LINK_BYTES_PER_S
    """No rate above is worth a try: the least capacity where all are known."""
    _by_inflow: dict[float, PlanCopies] = field(default_factory=dict, init=False)
    _by_rate: dict[int, TimeRange] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls, state: ClusterState, load: Load, plan: Plan, max_extra_bytes: int | None = None
    ) -> Task:
        what = build_copies(state, load, plan)
        capacities = _capacities(what, state)
        loads = what.side_loads
        borne = side_usages(state, load, loads)
        return cls(
            state,
            load,
            plan,
            what,
            max(capacities, default=LINK_BYTES_PER_S),
            bool(capacities),
            build_log_dir_copies(state, load, plan),
            max_extra_bytes,
            borne,
            link_room(state, loads, borne),
            min(capacities, default=LINK_BYTES_PER_S),
        )

    @cached_property
    def work(self) -> BatchInput:
        """Return what batches are made of, at any rate."""
        return BatchInput.of(self.state, self.load, self.plan, self.what)

    def spread(
        self, rate_bytes_per_s: int, per_side_rates: PerSideRates = NO_PER_SIDE_RATES
    ) -> TimeRange:
        """Return how long it takes at a rate, over what is not known; a rate is simulated once."""
        if per_side_rates:
            return self._spread(rate_bytes_per_s, per_side_rates)
        if rate_bytes_per_s not in self._by_rate:
            self._by_rate[rate_bytes_per_s] = self._spread(rate_bytes_per_s, per_side_rates)
        return self._by_rate[rate_bytes_per_s]

    def _spread(self, rate_bytes_per_s: int, per_side_rates: PerSideRates) -> TimeRange:
        batches = self._batches(rate_bytes_per_s)
        usual = self._simulate(rate_bytes_per_s, per_side_rates, batches, USUAL)
        last, ends = max(usual.ends), _side_ends(self.what, usual.ends)
        if math.isinf(last):
            return TimeRange(math.inf, math.inf, math.inf, True, ends, usual)
        cases = [QUICK, SLOW]
        if len(self.what.idle_seconds) <= MANY_FLOWS:  # the more flows, the less a phase matters
            cases += (Case(phase=phase) for phase in PHASES[1:])
        traces = (self._simulate(rate_bytes_per_s, per_side_rates, batches, case) for case in cases)
        lasts = [last, *(max(trace.ends) for trace in traces)]
        finite = [each for each in lasts if math.isfinite(each)]
        middle = median(lasts)
        typical = middle if math.isfinite(middle) else last
        return TimeRange(
            typical + AROUND_SECONDS,
            min(finite) * (1 - MARGIN) + AROUND_RANGE[0],
            max(finite) * (1 + MARGIN) + AROUND_RANGE[1],
            len(finite) < len(lasts),
            {side: end * typical / last for side, end in ends.items()},
            replace(usual, stretch=typical / last),
        )

    def slow_seconds(
        self, rate_bytes_per_s: int, per_side_rates: PerSideRates = NO_PER_SIDE_RATES
    ) -> float:
        """Return the wall seconds of the slow case alone: nearly the most, for a fraction of it."""
        batches = self._batches(rate_bytes_per_s)
        last = max(self._simulate(rate_bytes_per_s, per_side_rates, batches, SLOW).ends)
        return last * (1 + MARGIN) + AROUND_RANGE[1]

    def _batches(self, rate_bytes_per_s: int) -> CopyBatches:
        return CopyBatches.of(
            self.plan, self.what, self.work, rate_bytes_per_s, self.max_extra_bytes
        )

    def _simulate(
        self, rate: int, per_side_rates: PerSideRates, batches: CopyBatches, case: Case
    ) -> Trace:
        what = self.at_submission(case.inflow)
        quota = math.inf if rate == UNLIMITED else float(rate)
        link, room = self.link_bytes_per_s, self.room
        conditions = Conditions(quota, link, case.cut, case.phase, room, per_side_rates)
        return simulate_copies(what.copies, what.idle_seconds, conditions, batches)

    def at_submission(self, inflow: float) -> PlanCopies:
        """Return what there is to copy once brokers begin: what is produced until then is added."""
        if not any(copy.in_bytes_per_s for copy in self.what.copies):
            return self.what
        if inflow not in self._by_inflow:
            copies = (
                replace(
                    copy,
                    size_bytes=copy.size_bytes + copy.in_bytes_per_s * inflow * START_SECONDS,
                    in_bytes_per_s=copy.in_bytes_per_s * inflow,
                )
                for copy in self.what.copies
            )
            self._by_inflow[inflow] = replace(self.what, copies=tuple(copies))
        return self._by_inflow[inflow]

    @property
    def loads(self) -> list[SideLoad]:
        """Return what each side of each broker has to carry."""
        return [*self.what.side_loads.values(), *self.dirs.sides.values()]

    @property
    def known(self) -> bool:
        """Return whether everything is known that a time needs, but for the link."""
        unknown = self.what.sizes_unknown or self.dirs.unknown
        return not (self.what.blocked or self.dirs.down is not None or unknown)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Wall seconds of an apply over all cases; infinite is never.

    `max_seconds` is of the cases that end; `risk` is whether one of them does not. `ends` are
    from the submission on: the usual case's, stretched to the time that is told.
    """

    seconds: float
    min_seconds: float
    max_seconds: float
    risk: bool = False
    ends: dict[BrokerSide, float] = field(default_factory=dict)
    trace: Trace | None = None

    @property
    def never(self) -> bool:
        return math.isinf(self.seconds)

    @property
    def range_seconds(self) -> tuple[float, float]:
        return self.min_seconds, self.max_seconds

    def fits(self, seconds: float) -> bool:
        """Return whether every case ends within so many seconds."""
        return not self.risk and self.max_seconds <= seconds


def _side_ends(what: PlanCopies, ends: Sequence[float]) -> dict[BrokerSide, float]:
    latest: defaultdict[BrokerSide, float] = defaultdict(float)
    for copy, end in zip(what.copies, ends, strict=True):
        for side in copy.flow.sides:
            latest[side] = max(latest[side], end)
    return latest


def _capacities(what: PlanCopies, state: ClusterState) -> list[float]:
    """Return the capacities of the brokers concerned; none where one is not configured."""
    known = state.broker_by_id
    senders = {c.leader for c in what.copies} & known.keys()
    receivers = {c.destination for c in what.copies} & known.keys()
    capacities = [known[b].out_capacity_bytes_per_s for b in senders]
    capacities += [known[b].in_capacity_bytes_per_s for b in receivers]
    known_capacities = [capacity for capacity in capacities if capacity is not None]
    return known_capacities if len(known_capacities) == len(capacities) else []
