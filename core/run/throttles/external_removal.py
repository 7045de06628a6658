"""Guards a run whose throttles somebody keeps removing: it holds its mean rate.

A copy that is on no list gets all that the wire brings, and no rate of a broker holds it. So no
more begins than a side's rate brings in a quota window, and what came faster is waited out.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from core.cluster.balancers import editor_in_words, editor_remedy
from core.plan.copies import Side
from core.run.journal.rates import copied_sides
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import Key, by_broker
from core.run.steps import ChangeRates, Observation
from core.run.throttles.inflow import FLOOR_BYTES_PER_S
from core.units import UNLIMITED

AHEAD_SECONDS = 12.0
"""How much may be in flight, as what a rate brings meanwhile: one quota window."""
AHEAD_SHARE = 0.1
"""And how far ahead of its rate a copy in flight may be, as a share of the time under guard."""
NEWS = timedelta(minutes=10)
"""How long at least it is told of, after it was last written."""
WAITED_OUT = "somebody takes throttles away: what came faster than the rate is waited out"
GOES_ON = f"{WAITED_OUT}, for now"
REPEATED_REMOVALS = 2
"""So many removals are no accident any more."""


def begins_within(run: RunState, now: datetime, moves: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of these queued moves may begin now: all, while nobody has taken throttles."""
    if not run.guarded:
        return moves
    if pauses(run):
        return ()
    chosen = []
    begun: defaultdict[Key, float] = defaultdict(float)
    for index in moves:
        sizes = dict(copied_sides(run.moves[index]))
        if all(_is_due(run, key, begun[key], now) for key in sizes):
            chosen.append(index)
            for key, size in sizes.items():
                begun[key] += size
    return tuple(chosen)


def pauses(run: RunState) -> bool:
    """Return whether no move begins any more until the run is resumed, as its user chose."""
    return run.pause_if_removed and run.removals >= REPEATED_REMOVALS


def interferes(run: RunState, now: datetime) -> bool:
    """Return whether somebody takes throttles away again and again, as far as is journalled.

    That is written ever more seldom, each time after twice as long.
    """
    if run.removed_at is None or run.guarded_since is None:
        return False
    news = max(NEWS, 2 * (run.removed_at - run.guarded_since))
    return run.removals >= REPEATED_REMOVALS and now - run.removed_at <= news


def reason(run: RunState, editor: str) -> str:
    """Return in words who takes throttles away, what is done about it, and what helps."""
    who, remedy = editor_in_words(editor), editor_remedy(editor)
    if pauses(run):
        then = "paused, as chosen; `resume` goes on"
    elif run.held_back:
        then = "what came faster than the rate is waited out"
    elif run.queued:
        then = "moves begin by and by, so that the rate is kept"
    else:
        then = "each time they are put back"
    return f"{who} takes this run's throttles away: {then}; {remedy}"


def hold_back(run: RunState, observed: Observation) -> ChangeRates | None:
    """Return what holds copies in flight back that have got on too fast, or lets them go on.

    So the mean rate of one that takes longer than somebody's rhythm is kept too. The allowance
    grows with the time that it has gone on, so that rates are changed ever more seldom.
    """
    if run.guarded_since is None or run.rate_control.floored or run.throttles.away:
        return None  # what was taken away is put back first
    ahead, guarded = _ahead_bytes(run, observed), observed.now - run.guarded_since
    allowed = max(AHEAD_SECONDS, AHEAD_SHARE * guarded.total_seconds())
    moves = [run.moves[index] for index in run.in_flight]
    receiving = {key for m in moves for key, _ in copied_sides(m) if key[1] is not Side.LEADER}
    over: set[Key] = set()
    even = {key for key in run.held_back if key not in receiving}
    for m in moves:
        keys = [key for key, _ in copied_sides(m)]
        there = [key for key in keys if key in receiving]
        if any(ahead.get(key, 0) > allowed * run.rate_in_force(key) for key in keys):
            over.update(there)
        if all(key in ahead and ahead[key] <= 0 for key in keys):
            even.update(key for key in there if key in run.held_back)
    back = (key for key in sorted(over, key=by_broker) if _can_hold_back(run, key))
    if floors := tuple((key, FLOOR_BYTES_PER_S) for key in back):
        return ChangeRates(floors, WAITED_OUT, held=True)
    even = {key for key in even - over if key[0] in observed.alive}
    if not even:
        return None
    return ChangeRates(tuple((k, run.held_back[k]) for k in sorted(even, key=by_broker)), GOES_ON)


def _ahead_bytes(run: RunState, observed: Observation) -> dict[Key, float]:
    """Return how much more than their rates bring has come to sides, as far as that is known."""
    left: defaultdict[Key, float] = defaultdict(float)
    unknown: set[Key] = set()
    for index in run.in_flight:
        m = run.moves[index]
        share = 1 - min(1.0, observed.arrived.get(index, 0) / (m.size_bytes or 1))
        for key, size in copied_sides(m):
            left[key] += size * share
            if index not in observed.arrived:
                unknown.add(key)
    return {
        key: run.backlog.left_bytes(key, run.rate_in_force(key), observed.now) - size
        for key, size in left.items()
        if key not in unknown
    }


def _can_hold_back(run: RunState, key: Key) -> bool:
    rate = run.rate_control.rates.get(key)
    if rate is None or rate.theirs or key in run.held_back or key in run.throttles.rates_due:
        return False
    return not rate.is_refused(FLOOR_BYTES_PER_S)


def _is_due(run: RunState, key: Key, begun_bytes: float, now: datetime) -> bool:
    """Return whether a side has so little to come that a move may begin besides."""
    rate = run.rate_in_force(key)
    left = run.backlog.left_bytes(key, rate, now) + begun_bytes
    return rate == UNLIMITED or left <= AHEAD_SECONDS * rate
