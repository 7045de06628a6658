"""A run's state and what it observes, made by hand for `next_step`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters import NOON
from run_help import begun_history, move

from core.cluster.metadata import PartitionRow, Reassignment, TopicPartition
from core.plan.plan import Move
from core.run.journal.move_state import MoveRequest, Phase, RunMove
from core.run.journal.run_state import RunState
from core.run.steps import Observation

TP = TopicPartition("foo", 1)
ALIVE = frozenset(range(10))


def cancel(past: RunState) -> None:
    past.cancel_requested = True
    for m in past.moves:
        m.request = MoveRequest.CANCEL


def history(*moves: Move, phase: Phase = Phase.QUEUED, **more: Any) -> RunState:
    limited = "throttles" in more
    submitted = [RunMove(m, batch=0, phase=phase, limited=limited) for m in moves]
    past = begun_history(100, NOON, **{"moves": submitted, "batch_size": 200, **more})
    if past.cancel_requested:
        cancel(past)
    return past


def observed(
    replicas: tuple[int, ...] | None,
    isr: tuple[int, ...] | None = None,
    *,
    listed: Reassignment | None = None,
    steady: float = 0.0,
    alive: frozenset[int] = ALIVE,
    external_moves: Mapping[TopicPartition, Reassignment] | None = None,
    gone: bool = False,
    hidden: str = "",
) -> Observation:
    """Return a cluster that shows partition foo-1 like this; None for no such partition."""
    rows = {}
    if replicas is not None:
        leader = (isr or replicas)[0]
        rows[TP] = PartitionRow("foo", 1, leader, replicas, replicas if isr is None else isr)
    flying = dict(external_moves or {}) | ({TP: listed} if listed else {})
    return Observation(
        flying,
        rows,
        alive,
        {TP: steady},
        gone=frozenset([TP]) if gone else frozenset(),
        hidden={TP: hidden} if hidden else {},
    )


MOVE = move("foo", 1, (3, 2, 1), (0, 2, 1))
