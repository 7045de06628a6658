"""Decides what an autopilot does next: one pure function of settings, history and observation."""

from __future__ import annotations

import numpy as np

from core.autopilot.decision import Decision, Elect, Off, Reason, Wait
from core.autopilot.guards import SAFETY, TIMELY, check_guards
from core.autopilot.history import DecisionHistory
from core.autopilot.observation import (
    MIN_GAIN,
    Imbalance,
    Observation,
    excess_shares,
    imbalance_of,
    level_similar,
)
from core.autopilot.plan_choice import choose_plan
from core.autopilot.settings import AutopilotSettings, Mode
from core.cluster.hidden_topics import is_partial
from core.cluster.leaders import preferred_elections
from core.cluster.state import ClusterState, Int64
from core.errors import UsageError
from core.plan.planner.actual_leaders import select_elections
from core.plan.planner.plan_request import PlanRequest, frozen_partitions
from core.units import counted, format_duration

AUTO_REBALANCES_AWAITED = 2
"""So many of their intervals brokers have to give leaders back by themselves. Who does it is the
active controller, and its settings cannot be asked for where controllers are apart."""


def decide_elections(
    settings: AutopilotSettings, history: DecisionHistory, observed: Observation
) -> Elect | Reason:
    """Return the election to make, or in one sentence why there is none.

    `observed` has a load, and brokers that are outside the band by who leads now.
    """
    assert observed.load_view is not None
    assert observed.led is not None
    off = observed.led.sentence
    try:
        rows = _electable_rows(settings, observed.state)
    except UsageError as error:  # a topic of the settings that is not there any more
        return Reason("nothing-helps", f"{error.title} {error.next}")
    left = settings.max_moves_per_hour - history.spent(observed.now)[1]
    load_view, band = observed.load_view, settings.aim_band
    state, load = level_similar(observed.state, load_view.load, settings.alike)
    chosen, even = select_elections(state, load, rows, left, band=band)
    gain = excess_shares(even, band) - excess_shares(even, band, after=True)
    if gain < MIN_GAIN:
        return Reason(
            "election-helps-not", f"{off}, and no preferred leader that may be elected helps."
        )
    every, waited = observed.returns_every_seconds, _imbalance_seconds(history, observed.led)
    if every is not None and waited <= AUTO_REBALANCES_AWAITED * every:
        return Reason(
            "leaders-return",
            f"{off}, and brokers give leaders back by themselves (auto.leader.rebalance.enable, "
            f"every {format_duration(every)}): that is waited for; trimtab elect does it at once.",
        )
    after = imbalance_of(settings, even, after=True)
    back = "its preferred leader" if len(chosen) == 1 else "their preferred leaders"
    does = f"{counted(len(chosen), 'partition')} given back to {back}, nothing to move"
    late = (
        ""
        if every is None
        else f" Brokers say that they do it every {format_duration(every)}, and have not for "
        f"{format_duration(waited)}."
    )
    elections = preferred_elections(observed.state, chosen)
    why = f"{off}{load_view.words}: {does}, and then {after.words}.{late}"
    return Elect(elections, Reason("elect", why))


def _imbalance_seconds(history: DecisionHistory, led: Imbalance) -> float:
    """Return for how long a broker that is outside by who leads now has been."""
    return max(
        (
            history.leader_spans[place].seconds
            for place in led.outside & history.leader_spans.keys()
        ),
        default=0.0,
    )


def _electable_rows(settings: AutopilotSettings, state: ClusterState) -> Int64:
    """Return the partitions that others lead than their preferred replica, which is in the ISR."""
    touched = ~frozen_partitions(state, PlanRequest(topics=settings.topics, keep=settings.keep))
    found = preferred_elections(state, np.flatnonzero(touched))
    rows = [state.find(election.tp) for election in found if not election.obstacle]
    return np.array([row for row in rows if row is not None], np.int64)


def decide(
    settings: AutopilotSettings, history: DecisionHistory, observed: Observation
) -> Decision:
    """Return what to do; `history` has seen this look already (`History.seeing`)."""
    if settings.mode is Mode.OFF:
        return Off()
    if reasons := find_objections(settings, history, observed):
        return Wait(reasons)
    said = []
    for imbalance_lasts, find in (
        (history.leader_imbalance_lasts, decide_elections),
        (history.imbalance_lasts, choose_plan),
    ):
        if imbalance_lasts(settings, observed):
            found = find(settings, history, observed)
            if not isinstance(found, Reason):
                return found
            said.append(found)
    return Wait(tuple(said))


def find_objections(
    settings: AutopilotSettings, history: DecisionHistory, observed: Observation
) -> tuple[Reason, ...]:
    """Return what speaks against doing anything, without planning; `history` as for `decide`."""
    unsafe = check_guards(SAFETY, settings, history, observed)
    imbalance, led = observed.imbalance, observed.led
    if imbalance is not None and not imbalance.outside and not (led and led.outside):
        seen = " by the topics that are seen" if is_partial(observed.state.hidden) else ""
        even = f"Brokers are even enough{seen}: {imbalance.words}"
        band = f"a run is worth more than {settings.start_band:.0%} off"
        return (*unsafe, Reason("balanced", f"{even}, and {band}."))
    return unsafe or check_guards(TIMELY, settings, history, observed)
