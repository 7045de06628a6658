"""The lowest rate that meets a deadline, and lower ones for brokers that need less."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from core.plan.copies import NO_PER_SIDE_RATES, BrokerSide, PerSideRates
from core.plan.estimate.calibration import Learned
from core.plan.estimate.near_capacity import find_near_capacity
from core.plan.estimate.uncertainty import AROUND_RANGE, Task

MIN_BYTES_PER_S = 1000
"""Where next to nothing is copied: a quota of nothing would hold the first byte for ever."""


def min_rate(task: Task, seconds: float, learned: Learned | None) -> int | None:
    """Return the least rate whose whole range ends in `seconds`, to 1 %; None when none does.

    The slow case is searched alone, as it is nearly the most; then the others are looked at too.
    """
    fits = seconds - AROUND_RANGE[1]
    needs = task.dirs.needs(fits)
    if fits <= 0 or needs is None:
        return None
    within = max(needs.values(), default=0.0)
    if not task.what.copies:
        return max(MIN_BYTES_PER_S, math.ceil(within))
    max_rate = 4 * task.link_bytes_per_s * (1 if task.link_known else len(task.what.copies))
    loads = task.what.side_loads.values()
    slow, fast = 1.0, max(1.0, *(load.required_bytes_per_s(fits) for load in loads))
    while max_seconds(task, math.ceil(fast), NO_PER_SIDE_RATES, learned) > seconds:
        slow, fast = fast, fast * 1.5
        if fast > max_rate:
            return None
    slow = max(slow, fast / 3)
    while fast - slow > fast * 0.01:
        middle = (slow + fast) / 2
        late = max_seconds(task, math.ceil(middle), NO_PER_SIDE_RATES, learned) > seconds
        slow, fast = (middle, fast) if late else (slow, middle)
    while not is_in_time(task, math.ceil(fast), NO_PER_SIDE_RATES, seconds, learned):
        fast *= 1.01
        if fast > max_rate:
            return None
    return max(MIN_BYTES_PER_S, math.ceil(max(fast, within)))


def max_seconds(
    task: Task, rate: int, per_side_rates: PerSideRates, learned: Learned | None
) -> float:
    """Return about how long a task takes at most, with lower rates of some sides."""
    factor = 1.0 if learned is None else learned.factor
    return AROUND_RANGE[1] + (task.slow_seconds(rate, per_side_rates) - AROUND_RANGE[1]) * factor


def is_in_time(
    task: Task, rate: int, per_side_rates: PerSideRates, seconds: float, learned: Learned | None
) -> bool:
    """Return whether a task ends in `seconds` in every case, with lower rates of some sides."""
    spread = task.spread(rate, per_side_rates)
    return (spread if learned is None or spread.never else learned.on(spread)).fits(seconds)


FACTORS = (1.25, 1.6, 2.5, 4.0)
"""How many times what it copies on average a side may get: no side copies all of the time."""
RAISES = (1.0, 1.1, 1.2)
"""How much more the busiest sides may get so that all others get less."""
INFLOW_FACTOR = 2.0
"""Of what is produced meanwhile: when it becomes more than it was, the side still catches up."""
GENTLE_BYTES_PER_S = 10_000_000
"""A rate that no broker feels beside what it does anyway: a lower one spares nobody anything."""
WORTH = 0.8
"""A side that needs more of the rate than this is left with all of it."""
MAX_COPIES = 2_000
"""More are not simulated a dozen times."""


@dataclass(frozen=True, slots=True)
class ChosenRates:
    """A rate for all brokers and sides but those in `rates`, in bytes/s."""

    bytes_per_s: int
    rates: PerSideRates = field(default_factory=dict)

    def total_bytes_per_s(self, sides: int) -> int:
        """Return what so many sides may copy together."""
        return self.bytes_per_s * (sides - len(self.rates)) + sum(self.rates.values())


def choose_rates(
    task: Task,
    rate_bytes_per_s: int,
    seconds: float,
    learned: Learned | None,
    raises: Sequence[float] = RAISES,
) -> ChosenRates:
    """Return the rates with which all sides together may copy the least, and all end in time.

    `rate_bytes_per_s` alone ends in time. No broker newly comes near its capacity.
    """
    alike = ChosenRates(rate_bytes_per_s)
    sides = len(task.what.side_loads) + len(task.dirs.sides)
    if len(task.what.copies) > MAX_COPIES:
        return alike
    near = find_near_capacity(task.bearings, rate_bytes_per_s)
    tried = sorted(_candidate_rates(task, alike, seconds, raises), key=lambda attempt: attempt[0])
    for total, candidate in tried:
        if total > WORTH * alike.total_bytes_per_s(sides):
            break
        rate, per_side_rates = candidate.bytes_per_s, candidate.rates
        if len(per_side_rates) == sides:  # then it is the rate that is higher than need be
            continue
        if near is None and find_near_capacity(task.bearings, rate, per_side_rates) is not None:
            continue
        if not task.what.copies:
            return candidate
        slow = max_seconds(task, rate, per_side_rates, learned)
        if slow <= seconds and is_in_time(task, rate, per_side_rates, seconds, learned):
            return candidate
    return alike


def _candidate_rates(
    task: Task, alike: ChosenRates, seconds: float, raises: Sequence[float]
) -> Iterator[tuple[int, ChosenRates]]:
    fits = seconds - AROUND_RANGE[1]
    between = task.dirs.needs(fits) or {}
    for more in raises:
        rate = math.ceil(alike.bytes_per_s * more)
        for factor in FACTORS:
            needs: dict[BrokerSide, float] = {
                side: load.bytes / fits * factor + load.background * INFLOW_FACTOR
                for side, load in task.what.side_loads.items()
            }
            needs |= between
            rates = {side: max(GENTLE_BYTES_PER_S, math.ceil(n)) for side, n in needs.items()}
            candidate = ChosenRates(rate, {s: r for s, r in rates.items() if r <= rate * WORTH})
            yield candidate.total_bytes_per_s(len(needs)), candidate
