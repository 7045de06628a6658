"""A problem with a scope, without racks, or after moves that are planned already. Pure.

A problem in a scope knows of the other topics only what they are to the brokers in it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from core.cluster.state import ClusterState
from core.plan.plan import Plan
from core.plan.planner.model.measures import NOBODY, REPLICA_MEASURES, Measure
from core.plan.planner.model.problem import Problem, with_replica_counts
from core.plan.planner.model.racks import rack_shares


def brokers_outside(
    state: ClusterState, brokers: Collection[int], left: Collection[int]
) -> list[int]:
    """Return the brokers off which a scope's replicas go: all but these, and those left alone."""
    held = np.union1d(state.broker_ids, state.replica_broker)
    return np.setdiff1d(held, [*brokers, *left]).astype(int).tolist() if brokers else []


def scoped(given: Problem, brokers: Collection[int]) -> Problem:
    """Return the problem of evening only these brokers out, which get all that may be touched.

    What may not be touched counts where it is on these brokers, and nowhere else.
    """
    inside = np.isin(given.ids, np.array(list(brokers), np.int32))
    elsewhere = ~inside[given.replicas] & ~given.touchable[:, None]
    replicas = np.where(elsewhere, NOBODY, given.replicas)
    chosen = given.held * given.touchable
    parts = given.even_parts.copy()
    hidden = np.where(inside[:, None], given.hidden, 0.0)
    for measure in REPLICA_MEASURES:
        items = given.items[:, measure]
        fixed = hidden[:, measure].copy()
        for place in range(replicas.shape[1]):
            held = (replicas[:, place] != NOBODY) & ~given.touchable
            fixed += np.bincount(replicas[held, place], items[held], given.brokers)
        parts[:, measure] = rack_shares(
            parts[:, measure], items, chosen, given.racks, given.counts, fixed
        )
    return replace(given, replicas=replicas, parts=parts, hidden=hidden)


def without_racks(given: Problem) -> Problem:
    """Return the problem as if no broker had a rack: nothing is kept apart, all shares are even."""
    racks = np.full_like(given.racks, NOBODY)
    return replace(given, racks=racks, parts=given.even_parts)


def with_moves(given: Problem, plan: Plan) -> Problem:
    """Return the problem as a plan leaves it: where replicas are, what they send, what is full.

    The plan's own partitions may not be touched any more. Moves of partitions that do not exist,
    and brokers that do not, are none.
    """
    found = [(row, move) for move in plan if (row := given.state.find(move.tp)) is not None]
    row_of = {int(broker): row for row, broker in enumerate(given.ids)}
    width = max([given.replicas.shape[1], *(len(move.after) for _, move in found)])
    more = ((0, 0), (0, width - given.replicas.shape[1]))
    replicas = np.pad(given.replicas, more, constant_values=NOBODY)
    may_lead = np.pad(given.may_lead, more)
    touched, room = np.zeros(len(replicas), np.bool_), given.room_bytes.copy()
    for row, move in found:
        known = [row_of[broker] for broker in move.after if broker in row_of]
        replicas[row] = NOBODY
        replicas[row, : len(known)] = known
        touched[row] = True
        come = [row_of[broker] for broker in move.adding if broker in row_of]
        room[come] -= given.items[row, Measure.DISK]
    may_lead[touched] = False
    held = np.where(touched, (replicas >= 0).sum(axis=1), given.held)
    return replace(
        with_replica_counts(given, held),
        replicas=replicas,
        may_lead=may_lead,
        movable=given.movable & ~touched,
        touchable=given.touchable & ~touched,
        room_bytes=room,
    )
