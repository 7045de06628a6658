"""The throttle table: a plan at round rates, slowest to fastest, and the recommended one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.estimate.calibration import NOTHING_LEARNED, Calibration
from core.plan.estimate.estimate import Estimate, estimate_task
from core.plan.estimate.required_rates import GENTLE_BYTES_PER_S
from core.plan.estimate.uncertainty import Task
from core.plan.plan import Plan
from core.units import format_rate

ROUND_RATES = tuple(int(step * 10**power) for power in range(3, 11) for step in (1, 2, 5))
TABLE_ROWS = 8
SOON_SECONDS = 600.0
AT_ONCE_SECONDS = 60.0


def rate_table(
    state: ClusterState,
    load: Load,
    plan: Plan,
    *,
    max_extra_bytes: int | None = None,
    calibration: Calibration = NOTHING_LEARNED,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[Estimate, ...]:
    """Return estimates at round rates, slowest first; a rate that never ends begins, if any.

    Where none of them ends there is one more: the first above ordinary replication, or the
    capacity where that is less. `go_on` is called before each: what it raises ends it.
    """
    task = Task.of(state, load, plan, max_extra_bytes)
    if not task.loads or not task.known:
        return ()
    floor = max(load.background for load in task.loads)
    largest = max(load.bytes for load in task.loads)
    slow_enough = (rate for rate in ROUND_RATES if rate <= task.fastest_bytes_per_s)
    fastest = max(slow_enough, default=ROUND_RATES[0])
    least = min(max(floor * 0.99, largest / (24 * 3600)), fastest)
    rates = [rate for rate in ROUND_RATES if least <= rate <= fastest]
    below = [rate for rate in ROUND_RATES if rate < least]
    if floor > 0 and below:
        rates.insert(0, below[-1])
    useful = [rate for rate in rates if largest / rate > 2.0]
    chosen = useful[-TABLE_ROWS:] if len(useful) > 1 else rates[:2]
    found = []
    for rate in chosen:
        go_on()
        found.append(estimate_task(task, rate, calibration))
    if all(row.seconds is None for row in found):
        above = next((rate for rate in ROUND_RATES if rate > max(floor, fastest)), fastest)
        last = min(above, int(task.fastest_bytes_per_s)) if task.link_known else above
        if last > chosen[-1]:
            found.append(estimate_task(task, last, calibration))
    return tuple(found[-TABLE_ROWS:])


def default_rate(table: Sequence[Estimate]) -> int | None:
    """Return the rate to begin with, None when none ends.

    The slowest that is done in a minute if it is gentle enough for any broker, else the slowest
    that is done in ten minutes, else the fastest: of those at which no broker comes near its
    capacity, as far as that is known. Where one does at all of them it is the slowest.
    """
    rows = [row for row in table if row.seconds is not None]
    chosen = _soon([row for row in rows if row.near_capacity is None] or rows[:1])
    return chosen.rate_bytes_per_s if chosen is not None else None


def slower_reason(table: Sequence[Estimate]) -> str:
    """Return why the rate to begin with is slower than it would be; "" where it is not."""
    usual = _soon([row for row in table if row.seconds is not None])
    if (
        usual is None
        or usual.near_capacity is None
        or usual.rate_bytes_per_s == default_rate(table)
    ):
        return ""
    return f"at {format_rate(usual.rate_bytes_per_s)} {usual.near_capacity.words}"


def _soon(ending: Sequence[Estimate]) -> Estimate | None:
    done = [(row, row.seconds) for row in ending if row.seconds is not None]
    at_once = [row for row, seconds in done if seconds <= AT_ONCE_SECONDS]
    if at_once and at_once[0].rate_bytes_per_s <= GENTLE_BYTES_PER_S:
        return at_once[0]
    soon = [row for row, seconds in done if seconds <= SOON_SECONDS]
    return soon[0] if soon else (ending[-1] if ending else None)
