"""The least rate at which a plan ends in time, whatever of what is not known turns out."""

from __future__ import annotations

import math

from core.plan.calibration import Learned
from core.plan.copying import NONE_APART, Apart
from core.plan.spread import AROUND_RANGE, Task, slow_seconds

LEAST_BYTES_PER_S = 1000
"""Where next to nothing is copied: a quota of nothing would hold the first byte for ever."""


def least_rate(task: Task, seconds: float, learned: Learned | None) -> int | None:
    """Return the least rate whose whole range ends in `seconds`, to 1 %; None when none does.

    The slow case is searched alone, as it is nearly the most; then the others are looked at too.
    Where runs have narrowed the range it may be a few percent more than the least.
    """

    fits = seconds - AROUND_RANGE[1]
    within = task.dirs.least_rate(fits)
    if fits <= 0 or within is None:
        return None
    if not task.what.copies:
        return max(LEAST_BYTES_PER_S, math.ceil(within))
    most = 4 * task.link_bytes_per_s * (1 if task.link_known else len(task.what.copies))
    loads = task.what.side_loads.values()
    slow, fast = 1.0, max(1.0, *(load.required_bytes_per_s(fits) for load in loads))
    while slowest_seconds(task, math.ceil(fast), NONE_APART, learned) > seconds:
        slow, fast = fast, fast * 1.5
        if fast > most:
            return None
    slow = max(slow, fast / 3)
    while fast - slow > fast * 0.01:
        middle = (slow + fast) / 2
        late = slowest_seconds(task, math.ceil(middle), NONE_APART, learned) > seconds
        slow, fast = (middle, fast) if late else (slow, middle)
    while not in_time(task, math.ceil(fast), NONE_APART, seconds, learned):
        fast *= 1.01
        if fast > most:
            return None
    return max(LEAST_BYTES_PER_S, math.ceil(max(fast, within)))


def slowest_seconds(task: Task, rate: int, apart: Apart, learned: Learned | None) -> float:
    """Return about how long a task takes at most, with lower rates of some sides."""
    factor = 1.0 if learned is None else learned.factor
    return AROUND_RANGE[1] + (slow_seconds(task, rate, apart) - AROUND_RANGE[1]) * factor


def in_time(task: Task, rate: int, apart: Apart, seconds: float, learned: Learned | None) -> bool:
    """Return whether a task ends in `seconds` in every case, with lower rates of some sides."""
    found = task.spread(rate, apart)
    return (found if learned is None or found.never else learned.on(found)).fits(seconds)
