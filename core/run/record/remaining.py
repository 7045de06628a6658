"""What each broker and side of a run has still to copy, in flight and queued. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from core.run.limits.inflow import Key
from core.run.limits.throttle import Side
from core.run.record.moves import MoveHistory, Wish

if TYPE_CHECKING:
    from core.run.record.history import History


def remaining_bytes(
    history: History,
    arrived: Mapping[int, Sequence[int]],
    sizes: Mapping[int, int],
    leaders: Mapping[int, int],
) -> dict[Key, int | None]:
    """Return the bytes left by broker and side; None where one size is not known.

    By move: `arrived` is what each of its receiving brokers holds, `sizes` the leader's newest
    size, `leaders` who leads it; what they do not tell is as the preflight found it.
    """
    found: defaultdict[Key, int | None] = defaultdict(int)
    for index, m in enumerate(history.moves):
        if m.phase.ended or m.replaced or m.wish is not Wish.GO_ON:
            continue
        size = sizes.get(index, m.size_bytes)
        leader = leaders.get(index, m.leader)
        came = arrived.get(index) or (0,) * len(m.move.receiving)
        for broker, part in zip(m.move.receiving, came, strict=True):
            for key in _sides(m, broker, leader):
                before = found[key]
                found[key] = (
                    None if size is None or before is None else before + max(0, size - part)
                )
    return dict(found)


def _sides(m: MoveHistory, broker: int, leader: int | None) -> tuple[Key, ...]:
    if broker not in m.move.adding:
        return ((broker, Side.LOG_DIRS),)
    received = (broker, Side.FOLLOWER)
    return (received,) if leader is None else ((leader, Side.LEADER), received)
