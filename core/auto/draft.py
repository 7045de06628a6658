"""A plan that may be carried out: whole, the part that the hour's budget allows, what both do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from core.auto.alike import level_alike
from core.auto.history import History
from core.auto.observed import Observed, sight_of
from core.auto.part import copied_bytes, part_of
from core.auto.settings import Settings
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.plan import Plan
from core.plan.planner.evenness import Evenness, evenness
from core.plan.planner.planner import suggest
from core.plan.planner.request import Limits, Wanted

SPENT = 0.5
"""The part of an hour's budget beyond which only a whole plan is begun: no run for crumbs."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left of the hour's, and of what there is time for."""

    bytes: float
    moves: int
    is_short: bool
    """Whether too little of the hour's is left for anything but a whole plan."""

    @classmethod
    def left(
        cls, settings: Settings, history: History, observed: Observed, most_bytes: float
    ) -> Budget:
        spent_bytes, spent_moves = history.spent(observed.now)
        bytes_left = settings.most_bytes_per_hour - spent_bytes
        moves_left = settings.most_moves_per_hour - spent_moves
        short = spent_bytes > SPENT * settings.most_bytes_per_hour
        short = short or spent_moves > SPENT * settings.most_moves_per_hour
        return cls(min(bytes_left, most_bytes), moves_left, short)


@dataclass(frozen=True, eq=False, slots=True)
class Draft:
    """`part` is what would be done now, and `even` what that does to brokers; `then` is the goal.

    The goal is what the plan does that was found without limits, be it carried out whole, in parts,
    or, where its moves are too large for an hour, by another one that is within limits.
    """

    whole: Plan
    part: Plan
    whole_bytes: float
    part_bytes: float
    even: Evenness
    then: Evenness
    budget: Budget
    notes: tuple[str, ...]
    """What the planner had to say."""

    @property
    def is_whole(self) -> bool:
        return len(self.part) == len(self.whole)


def drafted(
    settings: Settings,
    history: History,
    observed: Observed,
    load: Load,
    *,
    leaders_only: bool,
    most_bytes: float = inf,
) -> Draft:
    """Return the plan for a load, and its part; what it does is by the load of now.

    Where nothing of it fits, because single partitions are too large, it is a plan that does.
    Raises UsageError for topics of the settings that are not there any more.
    """
    state = observed.state
    budget = Budget.left(settings, history, observed, most_bytes)
    wanted = Wanted(
        leaders_only=leaders_only,
        topics=settings.topics,
        keep=settings.keep,
        resting=history.resting(observed.now) | _of_unknown_size(state),
        band=settings.aim_band,
    )
    even, usual = level_alike(state, load, settings.alike)
    goal = found = suggest(even, usual, wanted)
    part = _part(state, load, found.plan, budget)
    if len(found.plan) and not len(part) and not budget.is_short:
        found = suggest(even, usual, replace(wanted, limits=Limits(budget.bytes, budget.moves)))
        part = _part(state, load, found.plan, budget)
    now = level_alike(state, sight_of(observed).load, settings.alike)
    return Draft(
        whole=found.plan,
        part=part,
        whole_bytes=copied_bytes(state, found.plan),
        part_bytes=copied_bytes(state, part),
        even=evenness(*now, part, band=settings.aim_band),
        then=evenness(*now, goal.plan, band=settings.aim_band),
        budget=budget,
        notes=found.notes,
    )


def _part(state: ClusterState, load: Load, plan: Plan, budget: Budget) -> Plan:
    return part_of(state, load, plan, most_bytes=budget.bytes, most_moves=budget.moves)


def _of_unknown_size(state: ClusterState) -> frozenset[TopicPartition]:
    """Return the partitions that no budget can be held against."""
    rows = np.flatnonzero(state.partition_size_bytes < 0)
    return frozenset(state.tp(row) for row in rows.tolist())
