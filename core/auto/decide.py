"""What an autopilot does next: one pure function of settings, history and what is observed.

Every guard is asked first; only when none holds is the planner asked for the smallest plan that
helps, within what is left of the hour's budget.
"""

from __future__ import annotations

from core.auto.decision import Decision, Off, Reason, Wait
from core.auto.guards import SAFETY, TIMELY, spoken
from core.auto.history import History
from core.auto.observed import Observed
from core.auto.settings import Mode, Settings
from core.auto.smallest import smallest


def decide(settings: Settings, history: History, observed: Observed) -> Decision:
    """Return what to do; `history` has seen this look already (`History.seeing`)."""
    if settings.mode is Mode.OFF:
        return Off()
    if reasons := against(settings, history, observed):
        return Wait(reasons)
    found = smallest(settings, history, observed)
    return Wait((found,)) if isinstance(found, Reason) else found


def against(settings: Settings, history: History, observed: Observed) -> tuple[Reason, ...]:
    """Return what speaks against any run now, without planning one; `history` as for `decide`."""
    unsafe = spoken(SAFETY, settings, history, observed)
    imbalance = observed.imbalance
    if imbalance is not None and not imbalance.outside:
        even = f"Brokers are even enough: {imbalance.words}"
        band = f"a run is worth more than {settings.start_band:.0%} off"
        return (*unsafe, Reason("balanced", f"{even}, and {band}."))
    return unsafe or spoken(TIMELY, settings, history, observed)
