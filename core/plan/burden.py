"""What brokers bear while a plan is carried out: how near to capacity, and how much more disk.

Pure. Nothing here is refused: it is said beside a time, before somebody chooses a rate.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.crowding import Crowded
from core.plan.estimate import Estimate
from core.plan.extra_disk import Extra, peak_extra
from core.plan.plan import Plan

NAMED = 3


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
    return Burden(estimate.crowded, peak_extra(state, load, plan, estimate))
