"""Guard: what a run does whose throttles somebody takes away: moves begin by and by.

A copy that is on no list gets all that the wire brings, and no rate of a broker holds it. So no
more is in flight than a side's rate brings in a quota window, and what came faster is waited out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from core.cluster.balancers import editor_in_words, remedy_of
from core.run.decide.steps import Observed
from core.run.limits.throttle import Side
from core.run.record.history import History, MoveHistory, Phase
from core.run.record.holdings import Key

AHEAD = timedelta(seconds=12)
"""How much may be in flight, as what a rate brings meanwhile: one quota window."""
AGAIN_AND_AGAIN = 2
"""So many removals are no accident any more."""


def begins_within(history: History, now: datetime, moves: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of these queued moves may begin now: all, while nobody has taken throttles."""
    if history.guard_from is None:
        return moves
    if pauses(history):
        return ()
    used = _used(history)
    chosen = []
    for index in moves:
        copies = dict(_copies(history.moves[index]))
        if all(_is_due(history, key, used.get(key), now) for key in copies):
            chosen.append(index)
            for key, size in copies.items():
                began, before = used.get(key, (now, 0))
                used[key] = min(began, now), before + size
    return tuple(chosen)


def pauses(history: History) -> bool:
    """Return whether no move begins any more until the run is resumed, as its user chose."""
    return history.pause_if_removed and history.removals >= AGAIN_AND_AGAIN


def reason(history: History, observed: Observed) -> str:
    """Return in words why moves wait: who takes throttles away, what is done, and what helps."""
    who, remedy = editor_in_words(observed.editor), remedy_of(observed.editor)
    then = (
        "paused, as chosen; `resume` goes on"
        if pauses(history)
        else "moves begin by and by, so that the rate is kept"
    )
    return f"{who} takes this run's throttles away: {then}; {remedy}"


def _used(history: History) -> dict[Key, tuple[datetime, int]]:
    """Return by broker and side what was copied, or is, and since when."""
    assert history.guard_from is not None
    began: dict[Key, datetime] = {}
    copied: defaultdict[Key, int] = defaultdict(int)
    for m in history.moves:
        if m.submitted_at is None or not (m.phase.in_flight or m.phase is Phase.DONE):
            continue
        if m.ended_at is not None and m.ended_at < history.guard_from:
            continue
        for key, size in _copies(m):
            began[key] = min(began.get(key, m.submitted_at), m.submitted_at)
            copied[key] += size
    return {key: (began[key], size) for key, size in copied.items()}


def _copies(m: MoveHistory) -> Iterator[tuple[Key, int]]:
    """Yield which brokers and sides copy for a move, and how much, as far as that is known."""
    size, move = m.size_bytes or 0, m.move
    if move.adding:
        leader = next(iter(move.before), -1) if m.leader is None else m.leader
        yield (leader, Side.LEADER), size * len(move.adding)
    for broker in move.adding:
        yield (broker, Side.FOLLOWER), size
    for broker in move.dir_moves:
        yield (broker, Side.LOG_DIRS), size


def _is_due(history: History, key: Key, used: tuple[datetime, int] | None, now: datetime) -> bool:
    rate = history.asked_of(key)
    if used is None or rate <= 0:
        return True
    began, size = used
    return now >= began + timedelta(seconds=size / rate) - AHEAD
