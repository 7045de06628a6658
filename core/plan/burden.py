"""What brokers bear while a plan is carried out: how near to capacity, and how much more disk.

Pure. Nothing here is refused: it is said beside a time, before somebody chooses a rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState
from core.load.snapshot import Float64, Load
from core.plan.check_capacity import taken_in
from core.plan.copying import Side
from core.plan.effect import totals
from core.plan.estimate import Estimate
from core.plan.extra_disk import Extra, peak_extra
from core.plan.plan import Plan
from core.units import UNLIMITED

NEAR_CAPACITY = 0.8
"""From here on clients wait longer, as a broker's queues do not empty between bursts."""
NAMED = 3


@dataclass(frozen=True, slots=True)
class Crowded:
    """A broker and side whose load with the throttle on top comes near its capacity."""

    broker: int
    side: Side
    fraction: float

    @property
    def words(self) -> str:
        """Return who comes how near."""
        can = "send" if self.side is Side.LEADER else "take in"
        return f"broker {self.broker} comes to {self.fraction:.0%} of what it can {can}"


@dataclass(frozen=True, slots=True)
class Burden:
    """Who comes nearest to its capacity, None when nobody does; extra disk, the most first."""

    crowded: Crowded | None = None
    extra: tuple[Extra, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """Return what is to be said of it."""
        said = []
        if self.crowded is not None:
            words = self.crowded.words
            said.append(f"With the throttle on top {words}: clients there may wait longer.")
        if self.extra:
            shown = [one.words for one in self.extra[:NAMED]]
            more = len(self.extra) - len(shown)
            rest = f"; less on {more} more" if more else ""
            said.append(f"Meanwhile disks hold more, at most {', '.join(shown)}{rest}.")
        return said


def burden(state: ClusterState, load: Load, plan: Plan, estimate: Estimate) -> Burden:
    """Return what brokers bear at the rate of an estimate; nothing of one that never ends."""
    if estimate.never is not None:
        return Burden()
    return Burden(crowded(state, carried(state, load), estimate), peak_extra(state, plan, estimate))


def carried(state: ClusterState, load: Load) -> Mapping[Side, Float64]:
    """Return what each broker sends, and takes in as leader and follower, shape [B]."""
    return {Side.LEADER: totals(state, load).out_bytes_per_s, Side.FOLLOWER: taken_in(state, load)}


def crowded(
    state: ClusterState, carried: Mapping[Side, Float64], estimate: Estimate
) -> Crowded | None:
    """Return the fullest broker and side at this rate, None when below 80 % or not known.

    What a broker copies comes on top of what each side carries, [B]; it copies no faster than the
    rate.
    """
    rate = estimate.timed_bytes_per_s
    worst: Crowded | None = None
    at = {broker.id: i for i, broker in enumerate(state.brokers)}
    for row in estimate.rows:
        broker = state.broker_by_id.get(row.broker)
        if broker is None or not row.bytes or row.side is Side.LOG_DIRS or rate == UNLIMITED:
            continue
        leads = row.side is Side.LEADER
        capacity = broker.out_capacity_bytes_per_s if leads else broker.in_capacity_bytes_per_s
        load = float(carried[row.side][at[row.broker]])
        if not capacity or np.isnan(load):
            continue
        fraction = (load + rate) / capacity
        if fraction >= NEAR_CAPACITY and (worst is None or fraction > worst.fraction):
            worst = Crowded(row.broker, row.side, fraction)
    return worst
