"""Checks a plan and returns the findings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.cluster.balancers import find_balancer
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.brokers import (
    check_disks,
    check_leader_skew,
    check_log_dir_space,
    find_above_fair_share,
    find_over_capacity,
    moves_with_rates,
)
from core.plan.checks.catalogue import Finding, finding, worst_first
from core.plan.checks.moves import NONE_IN_FLIGHT, check_moves, clean_moves, illegal_facts
from core.plan.effect import compute_effect
from core.plan.plan import Plan

GROWTH_SECONDS = 3600.0
"""How long partitions are taken to grow while they move, when nobody has estimated it."""


def check_plan(
    state: ClusterState,
    load: Load,
    plan: Plan,
    *,
    reassignments: Mapping[TopicPartition, Reassignment] = NONE_IN_FLIGHT,
) -> tuple[Finding, ...]:
    """Return everything that speaks against a plan whose time nobody has estimated, worst first.

    `reassignments` are the moves in flight that are not the plan's own run's.
    """
    return CheckedPlan(state, load, plan, reassignments).after(None)


class CheckedPlan:
    """A plan that was checked, but for what depends on how long it takes: its rate decides that."""

    def __init__(
        self,
        state: ClusterState,
        load: Load,
        plan: Plan,
        reassignments: Mapping[TopicPartition, Reassignment] = NONE_IN_FLIGHT,
    ) -> None:
        self._state, self._load, self._plan = state, load, plan
        clean = list(zip(plan, clean_moves(state, load, plan.moves, reassignments), strict=True))
        doubtful = [move for move, is_clean in clean if not is_clean]
        self._possible = possible = [
            move for move, is_clean in clean if is_clean or not illegal_facts(state, move)
        ]
        effect = compute_effect(state, load, moves_with_rates(state, load, possible))
        self._findings = [
            *check_moves(state, load, doubtful, reassignments),
            *find_over_capacity(state, effect.before, effect.after),
            *find_above_fair_share(state, effect.before, effect.after),
        ]
        if plan.moves and (balancer := find_balancer(state)) is not None:
            why = f"{balancer}: its next run would cancel these moves; stop it first."
            self._findings.append(finding("cruise-control", why))
        if plan.moves and state.hidden is not None and not state.hidden.is_complete:
            why = f"{state.hidden.sentence} What they carry is in no comparison here."
            self._findings.append(finding("hidden-topics", why))
        self._findings += check_leader_skew(state, possible)

    def after(self, seconds: float | None, never: str | None = None) -> tuple[Finding, ...]:
        """Return all that speaks against the plan, worst first; `never` is why it does not end."""
        grows = GROWTH_SECONDS if seconds is None else seconds
        findings = [
            *self._findings,
            *check_disks(self._state, self._load, self._possible, grows),
            *check_log_dir_space(self._state, self._load, self._possible, grows),
        ]
        if never is not None:
            findings.append(finding("never", never, (m.tp for m in self._plan if m.receiving)))
        return worst_first(findings)


def in_flight(state: ClusterState) -> Mapping[TopicPartition, Reassignment]:
    """Return the reassignments that the state shows, whoever asked for them."""
    reassignments = {}
    for index in np.flatnonzero(state.reassigning).tolist():
        row = state.row(index)
        reassignments[row.tp] = Reassignment(row.replicas, row.adding, row.removing)
    return reassignments
