"""What an autopilot does next: one pure function of settings, history and what is observed.

Every guard is asked first; only when none holds, whether an election gives leaders back, and then
the planner for the smallest plan that helps, within what is left of the hour's budget.
"""

from __future__ import annotations

from core.auto.decision import Decision, Off, Reason, Wait
from core.auto.electing import giving_back
from core.auto.guards import SAFETY, TIMELY, spoken
from core.auto.history import History
from core.auto.observed import Observed
from core.auto.settings import Mode, Settings
from core.auto.smallest import smallest
from core.cluster.hidden_topics import is_partial


def decide(settings: Settings, history: History, observed: Observed) -> Decision:
    """Return what to do; `history` has seen this look already (`History.seeing`)."""
    if settings.mode is Mode.OFF:
        return Off()
    if reasons := against(settings, history, observed):
        return Wait(reasons)
    said = []
    for long_enough, find in (
        (history.long_enough_led, giving_back),
        (history.long_enough, smallest),
    ):
        if long_enough(settings, observed):
            found = find(settings, history, observed)
            if not isinstance(found, Reason):
                return found
            said.append(found)
    return Wait(tuple(said))


def against(settings: Settings, history: History, observed: Observed) -> tuple[Reason, ...]:
    """Return what speaks against doing anything, without planning; `history` as for `decide`."""
    unsafe = spoken(SAFETY, settings, history, observed)
    imbalance, led = observed.imbalance, observed.led
    if imbalance is not None and not imbalance.outside and not (led and led.outside):
        seen = " by the topics that are seen" if is_partial(observed.state.hidden) else ""
        even = f"Brokers are even enough{seen}: {imbalance.words}"
        band = f"a run is worth more than {settings.start_band:.0%} off"
        return (*unsafe, Reason("balanced", f"{even}, and {band}."))
    return unsafe or spoken(TIMELY, settings, history, observed)
