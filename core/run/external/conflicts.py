"""Conflicts: why a run must not start now, or a topic not be changed.

It would be taken for what was there before, kept or put back, and never go.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from core.cluster.connect import Address, connect
from core.cluster.state import ClusterState
from core.errors import RIGHTS, AccessDeniedError, RefusedError
from core.run.external.leftovers import fetch_leftovers
from core.run.journal.throttle_values import Side
from core.run.reporting.progress import leftovers
from core.run.reporting.runs import left_behind, refuse_unreadable, with_throttles
from core.run.reporting.views import Leftovers
from core.units import format_duration

_SHOWN = 3


def refuse_conflicts(cluster_id: str, address: Address) -> None:
    """Raise RefusedError while something of another run's is left in this cluster.

    Raises IncompleteError when a journal that may tell of such cannot be read.
    The cluster is asked only where a journal tells of what an ended run left, which it does ever
    after. Throttles of brokers that are down cannot be cleared either: they do not count.
    """
    if dead := left_behind(cluster_id):
        raise RefusedError(
            f"Run {dead[0]} has died in the middle of its work on this cluster.",
            detail="What it left would be taken for what was there before.",
            next=f"Bring it back first: trimtab runs attach {dead[0]} --yes (to undo what it "
            f"began, ask for that before: trimtab runs cancel {dead[0]} --yes).",
        )
    refuse_unreadable(cluster_id, "has left something")
    ended = [run.state for run in with_throttles(cluster_id) if run.state.ended is not None]
    if not ended:
        return
    connection = connect(address)
    try:
        for state in ended:
            left = replace(leftovers(state), moves=(), copies=())  # others' moves are looked for
            refuse_leftovers(state.run_id, fetch_leftovers(connection.client, left, surely=True))
    finally:
        connection.client.close()


def refuse_leftovers(run: str, left: Leftovers) -> None:
    """Raise RefusedError when a run that has ended left throttles, or a retention lowered."""
    if left.lists or left.rates:
        _refuse_throttles(run, left)
    if left.retention:
        first, more = left.retention[0], len(left.retention) - 1
        others = f" and {more} more topic{'s' * (more > 1)}" if more else ""
        lowered = format_duration(first.retention_ms / 1000)
        raise RefusedError(
            f"Run {run} has left the retention of {first.topic}{others} lowered to {lowered}: "
            "put it back first.",
            detail="It would be taken for what was there before.",
            next="; ".join(one.puts_back for one in left.retention[:_SHOWN])
            + (f"; the others: trimtab runs show {run}" if more >= _SHOWN else ""),
        )


def _refuse_throttles(run: str, left: Leftovers) -> None:
    places = [f"broker {broker}" for broker in sorted({rate.broker for rate in left.rates})]
    places += [f"topic {topic}" for topic in sorted({topic for topic, _, _ in left.lists})]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    between_dirs = sorted({r.broker for r in left.rates if r.side is Side.LOG_DIRS})
    by_name = "".join(f" broker:{broker}" for broker in between_dirs)
    raise RefusedError(
        f"Run {run} has left throttles in this cluster ({', '.join(places[:_SHOWN])}{more}): "
        f"clear them first, by trimtab throttles clear{by_name}.",
        detail="They would be taken for what was there before.",
    )


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
        if run.state.ended is not None:
            continue
        held = {move.move.tp.topic for move in run.state.moves}.intersection(topics)
        if held:
            raise RefusedError(
                f"Topic {min(held)} cannot be {doing}: run {run.state.run_id} moves it.",
                next=f"Wait for its end, or: trimtab runs cancel {run.state.run_id}{allow}",
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
