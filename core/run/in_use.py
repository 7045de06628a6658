"""Why a topic must not be deleted, extended or made to keep less now: somebody is moving it.

Kafka would take a move along with its topic, and the run would be left with half of its plan.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from core.cluster.state import ClusterState
from core.errors import RIGHTS, AccessDeniedError, RefusedError
from core.run.tell.runs import refuse_unreadable, with_throttles

ALLOW = "moving"
"""By this id it can be allowed, where that is offered at all."""


def refuse_if_moving(
    state: ClusterState, topics: Collection[str], doing: str, *, allowable: bool = False
) -> None:
    """Raise RefusedError when one of these topics is under a move, by a run of ours or not.

    `doing` is what is refused ("deleted"); the refusal says how to allow it where it is
    `allowable`. Raises IncompleteError when a journal that may name them cannot be read, and
    AccessDeniedError when the user may not see what is in flight.
    """
    allow = f"; or, if you know better: --allow {ALLOW}" if allowable else ""
    refuse_unreadable(state.cluster_id, "moves a topic")
    for run in with_throttles(state.cluster_id):
        if run.history.ended is not None:
            continue
        held = {move.move.tp.topic for move in run.history.moves}.intersection(topics)
        if held:
            raise RefusedError(
                f"Topic {min(held)} cannot be {doing}: run {run.history.run} moves it.",
                next=f"Wait for its end, or: trimtab runs cancel {run.history.run}{allow}",
            )
    if state.moves_unknown:
        raise AccessDeniedError(state.moves_unknown, next=f"{RIGHTS}{allow}")
    for row in np.flatnonzero(state.reassigning).tolist():
        tp = state.tp(row)
        if tp.topic in topics:
            raise RefusedError(
                f"Topic {tp.topic} cannot be {doing}: {tp} is being reassigned.",
                next=f"Wait for the end of that move: trimtab runs show foreign{allow}",
            )
