"""Scope: some topics on some brokers only, and racks that are to be ignored. Pure.

A problem in a scope knows of the other topics only what they are to the brokers in it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from core.cluster.state import ClusterState
from core.plan.planner.measures import HOSTED
from core.plan.planner.problem import NOBODY, Problem
from core.plan.planner.racks import rack_shares


def outside(state: ClusterState, brokers: Collection[int], left: Collection[int]) -> list[int]:
    """Return the brokers off which a scope's replicas go: all but these, and those left alone."""
    held = np.union1d(state.broker_ids, state.replica_broker)
    return np.setdiff1d(held, [*brokers, *left]).astype(int).tolist() if brokers else []


def scoped(given: Problem, brokers: Collection[int]) -> Problem:
    """Return the problem of evening only these brokers out, which get all that may be touched.

    What may not be touched counts where it is on these brokers, and nowhere else.
    """
    inside = np.isin(given.ids, np.array(list(brokers), np.int32))
    elsewhere = ~inside[given.replicas] & ~given.asked[:, None]
    replicas = np.where(elsewhere, NOBODY, given.replicas)
    chosen = given.held * given.asked
    parts = given.even_parts.copy()
    hidden = np.where(inside[:, None], given.hidden, 0.0)
    for measure in HOSTED:
        items = given.items[:, measure]
        fixed = hidden[:, measure].copy()
        for place in range(replicas.shape[1]):
            held = (replicas[:, place] != NOBODY) & ~given.asked
            fixed += np.bincount(replicas[held, place], items[held], given.brokers)
        parts[:, measure] = rack_shares(
            parts[:, measure], items, chosen, given.racks, given.counts, fixed
        )
    return replace(given, replicas=replicas, parts=parts, hidden=hidden)


def without_racks(given: Problem) -> Problem:
    """Return the problem as if no broker had a rack: nothing is kept apart, all shares are even."""
    racks = np.full_like(given.racks, NOBODY)
    return replace(given, racks=racks, parts=given.even_parts)
