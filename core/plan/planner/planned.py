"""A problem as it is once moves that are planned already have been carried out. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.plan.plan import Plan
from core.plan.planner.measures import Measure
from core.plan.planner.problem import NOBODY, Problem, resized


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
        resized(given, held),
        replicas=replicas,
        may_lead=may_lead,
        movable=given.movable & ~touched,
        asked=given.asked & ~touched,
        room_bytes=room,
    )
