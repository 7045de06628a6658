"""Decides what an autopilot does next: one pure function of settings, history and observation."""

from __future__ import annotations

import numpy as np

from core.autopilot.decision import Decision, Elect, Off, Reason, Wait
from core.autopilot.guards import check_safety, check_timing
from core.autopilot.history import DecisionHistory, Situation
from core.autopilot.observation import (
    MIN_GAIN,
    Observation,
    gained_shares,
    imbalance_of,
    level_similar,
)
from core.autopilot.plan_choice import choose_plan
from core.autopilot.settings import AutopilotSettings, Mode
from core.cluster.access.hidden_topics import is_partial
from core.cluster.leaders import preferred_elections
from core.errors import UsageError
from core.plan.planner.evenness import select_elections
from core.plan.planner.plan_request import PlanRequest, frozen_partitions
from core.units import counted, format_duration

AUTO_REBALANCES_AWAITED = 2
"""So many of their intervals brokers have to give leaders back by themselves. Who does it is the
active controller, and its settings cannot be asked for where controllers are apart."""


def decide(
    settings: AutopilotSettings, history: DecisionHistory, observed: Observation
) -> Decision:
    """Return what to do; `history` has seen this look already (`DecisionHistory.seeing`)."""
    if settings.mode is Mode.OFF:
        return Off()
    if reasons := find_objections(settings, history, observed):
        return Wait(reasons)
    situation = Situation(settings, history, observed)
    why_not = []
    for lasts, find in (
        (situation.leader_imbalance_lasts, _decide_elections),
        (situation.imbalance_lasts, choose_plan),
    ):
        if lasts:
            outcome = find(situation)
            if not isinstance(outcome, Reason):
                return outcome
            why_not.append(outcome)
    return Wait(tuple(why_not))


def find_objections(
    settings: AutopilotSettings, history: DecisionHistory, observed: Observation
) -> tuple[Reason, ...]:
    """Return what speaks against doing anything, without planning; `history` as for `decide`."""
    situation = Situation(settings, history, observed)
    unsafe = check_safety(situation)
    imbalance, by_leader = observed.imbalance, observed.leader_imbalance
    if imbalance is not None and not imbalance.outside and not (by_leader and by_leader.outside):
        visible = " by the topics that are seen" if is_partial(observed.state.hidden) else ""
        even = f"Brokers are even enough{visible}: {imbalance.words}"
        band = f"a run is worth more than {settings.start_band:.0%} off"
        return (*unsafe, Reason("balanced", f"{even}, and {band}."))
    return unsafe or tuple(check_timing(situation))


def _decide_elections(situation: Situation) -> Elect | Reason:
    """Return the election to make, or in one sentence why there is none.

    There is a load, and there are brokers that are outside the band by who leads now.
    """
    settings, observed, load_view = situation.settings, situation.observed, situation.load_view
    assert observed.leader_imbalance is not None
    off = observed.leader_imbalance.sentence
    state = observed.state
    try:
        request = PlanRequest(topics=settings.topics, keep=settings.keep)
        touched = np.flatnonzero(~frozen_partitions(state, request))
    except UsageError as error:  # a topic of the settings that is not there any more
        return Reason("nothing-helps", f"{error.title} {error.next}")
    left = settings.max_moves_per_hour - situation.history.spent(observed.now)[1]
    band = settings.aim_band
    able = (election for election in preferred_elections(state, touched) if not election.obstacle)
    maybe_rows = (state.find(election.tp) for election in able)
    rows = np.array([row for row in maybe_rows if row is not None], np.int64)
    level = level_similar(state, load_view.load, settings.alike)
    chosen, even = select_elections(*level, rows, left, band=band)
    gain = gained_shares(even, band)
    if gain < MIN_GAIN:
        return Reason(
            "election-helps-not", f"{off}, and no preferred leader that may be elected helps."
        )
    late, every = "", observed.returns_every_seconds
    if every is not None:
        spans = situation.history.lasting
        waited = max(
            spans[place].seconds for place in observed.leader_imbalance.outside & spans.keys()
        )
        if waited <= AUTO_REBALANCES_AWAITED * every:
            return Reason(
                "leaders-return",
                f"{off}, and brokers give leaders back by themselves (auto.leader.rebalance.enable,"
                f" every {format_duration(every)}): that is waited for; trimtab elect does it at "
                "once.",
            )
        late = (
            f" Brokers say that they do it every {format_duration(every)}, and have not for "
            f"{format_duration(waited)}."
        )
    after = imbalance_of(settings, even, after=True)
    back = "its preferred leader" if len(chosen) == 1 else "their preferred leaders"
    does = f"{counted(len(chosen), 'partition')} given back to {back}, nothing to move"
    elections = preferred_elections(state, chosen)
    why = f"{off}{load_view.words}: {does}, and then {after.words}.{late}"
    return Elect(elections, (Reason("elect", why),))
