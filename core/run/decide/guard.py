"""Guard: what a run does whose throttles somebody takes away: moves begin by and by.

A copy that is on no list gets all that the wire brings, and no rate of a broker holds it. So no
more is in flight than a side's rate brings in a quota window, and what came faster is waited out.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from core.cluster.balancers import editor_in_words, remedy_of
from core.run.decide.steps import Observed
from core.run.record.backlog import copies
from core.run.record.history import History
from core.run.record.holdings import Key
from core.units import UNLIMITED

AHEAD_SECONDS = 12.0
"""How much may be in flight, as what a rate brings meanwhile: one quota window."""
AGAIN_AND_AGAIN = 2
"""So many removals are no accident any more."""


def begins_within(history: History, now: datetime, moves: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of these queued moves may begin now: all, while nobody has taken throttles."""
    if not history.guarded:
        return moves
    if pauses(history):
        return ()
    chosen = []
    begun: defaultdict[Key, int] = defaultdict(int)
    for index in moves:
        sizes = dict(copies(history.moves[index]))
        if all(_is_due(history, key, begun[key], now) for key in sizes):
            chosen.append(index)
            for key, size in sizes.items():
                begun[key] += size
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


def _is_due(history: History, key: Key, begun_bytes: int, now: datetime) -> bool:
    """Return whether a side has so little to come that a move may begin besides."""
    rate = history.rate_in_force(key)
    left = history.backlog.left_bytes(key, rate, now) + begun_bytes
    return rate == UNLIMITED or left <= AHEAD_SECONDS * rate
