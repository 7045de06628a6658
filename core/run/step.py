"""What a run does next: `next_step(history, observed)`, a pure function, and the steps it chooses.

The journal's fold and what the cluster shows decide everything, so a run that crashed goes on
where the two say it is. Nothing here talks to a cluster (docs/runs.md tells the order and why).
"""

from __future__ import annotations

from collections.abc import Iterator

from core.cluster.state import PartitionRow, TopicPartition
from core.run.endings import GONE, OFF, STOPPING, endings
from core.run.giving_back import give_back, involved, still_held
from core.run.history import History, MoveHistory, Outcome, Phase
from core.run.moves import Wish
from core.run.steps import (
    Cancel,
    End,
    Ending,
    IntendRates,
    IntendThrottles,
    NoteEnded,
    Observed,
    Poll,
    Postpone,
    Preflight,
    Reorder,
    SetRates,
    SetThrottles,
    Step,
    Submit,
)
from core.units import UNLIMITED

LONGEST_SECONDS = 30.0
"""The longest time between two tries to submit the same."""


def next_step(history: History, observed: Observed) -> Step:
    """Return what to do now. Clean up first, then go on; a request to cancel goes before both."""
    if not history.preflight and not history.stopped and not history.cancel_requested:
        return Preflight()
    ended = tuple(endings(history, observed))
    if ended:
        changed = [e for e in ended if e.phase is Phase.FAILED and e.why in STOPPING]
        stop = f"{history.moves[changed[0].index].move.tp} {changed[0].why}" if changed else ""
        return NoteEnded(ended, stop)
    cancel = _cancel(history, observed)
    if isinstance(cancel, Cancel | Reorder):
        return cancel
    return (
        _catch_up(history, observed)
        or give_back(history, observed)
        or cancel
        or _go_on(history, observed)
        or _finish(history, observed)
    )


# -- cancelling -----------------------------------------------------------------------------------


def _cancel(history: History, observed: Observed) -> Step | None:
    taking_back = [i for i in history.in_flight if history.moves[i].wish is Wish.CANCEL]
    cancel: list[int] = []
    reorder: list[int] = []
    unclean: list[int] = []
    for index in taking_back:
        m = history.moves[index]
        listed, row = observed.reassignments.get(m.move.tp), observed.rows.get(m.move.tp)
        again = observed.is_settled(m.move.tp)
        if listed is not None and listed.target == m.move.after:
            if not m.cancel_sent or again:
                (cancel if _clean(history, m, row) else unclean).append(index)
        elif listed is None and row is not None and _needs_order(m, row):
            reorder.append(index)
    if cancel:
        return Cancel(tuple(cancel))
    if reorder:
        return Reorder(tuple(reorder))
    if unclean:
        first = history.moves[unclean[0]].move.tp
        return Poll(
            f"{first} cannot be cancelled: too few of its first replicas are in sync; it goes on"
        )
    return Poll(_waits_for(history, observed, taking_back)) if taking_back else None


def _needs_order(m: MoveHistory, row: PartitionRow) -> bool:
    same = set(row.replicas) == set(m.move.before)
    return same and row.replicas not in (m.move.before, m.move.after)


def _clean(history: History, m: MoveHistory, row: PartitionRow | None) -> bool:
    """Return whether a cancelled partition would keep enough replicas in sync."""
    if row is None:
        return False
    reverted = [b for b in row.isr if b in m.move.before]
    least = min(history.min_insync.get(m.move.tp.topic, 1), len(m.move.before))
    return len(reverted) >= max(1, least)


# -- brokers that return --------------------------------------------------------------------------


def _catch_up(history: History, observed: Observed) -> Step | None:
    """Return what gives rates to brokers that were down when those of moves in flight were set."""
    for index in history.in_flight:
        m = history.moves[index]
        if m.batch not in history.throttles:
            continue
        needed = [k for k in involved(m.move.before, m.move.adding) if k[0] in observed.alive]
        due = tuple(key for key in needed if key in history.rates_due)
        if due:
            return SetRates(m.batch, due)
        brokers = tuple(dict.fromkeys(key[0] for key in needed if key not in history.rates))
        if brokers:
            return IntendRates(m.batch, brokers)
    return None


# -- going on -------------------------------------------------------------------------------------


def _go_on(history: History, observed: Observed) -> Step | None:
    flying = history.in_flight
    again = [i for i in flying if _never_arrived(history.moves[i], observed)]
    if again:
        return Submit(tuple(again))
    if flying:
        return Poll(_waits_for(history, observed, flying))
    moves = tuple(history.next_batch)
    if not moves:
        return None
    reason = _not_now(history, observed)
    if reason:
        return Poll(reason)
    return _sort_out(history, observed, moves) or _throttle(history, moves) or Submit(moves)


def _sort_out(history: History, observed: Observed, moves: tuple[int, ...]) -> Step | None:
    """Return what is to be done about moves of a batch that cannot be submitted now, or None."""
    spoiled = tuple(_spoiled(history, observed, moves))
    if spoiled:
        return NoteEnded(spoiled)
    doubtful = _doubtful(history, observed, moves)
    if doubtful:
        return Poll(doubtful)
    held = dict(_held_up(history, observed, moves))
    if not held:
        return None
    why = next(iter(held.values()))
    first = tuple(index for index in held if index not in history.postponed)
    if first and len(held) < len(history.queued):
        return Postpone(first, held[first[0]])
    return Poll(why)


def _throttle(history: History, moves: tuple[int, ...]) -> Step | None:
    batch = history.moves[moves[0]].batch
    throttle = history.throttles.get(batch)
    if throttle is not None:
        return None if throttle.set else SetThrottles(batch)
    copying = any(history.moves[i].move.moves_data for i in moves)
    return IntendThrottles(batch) if copying and history.rate_bytes_per_s != UNLIMITED else None


def _spoiled(history: History, observed: Observed, moves: tuple[int, ...]) -> Iterator[Ending]:
    """Yield queued moves that must not be submitted any more."""
    for index in moves:
        m = history.moves[index]
        row = observed.rows.get(m.move.tp)
        if row is None and m.move.tp in observed.gone:
            yield Ending(index, Phase.CANCELLED, GONE)
        elif row is not None and _is_off(m, row, observed) and observed.is_settled(m.move.tp):
            yield Ending(index, Phase.FAILED, OFF, row.leader)


def _doubtful(history: History, observed: Observed, moves: tuple[int, ...]) -> str:
    """Return which queued move looks wrong, though that is not sure yet, or ""."""
    for index in moves:
        m = history.moves[index]
        tp, row = m.move.tp, observed.rows.get(m.move.tp)
        if row is None and tp not in observed.hidden:
            return _unseen(observed, tp)
        if _is_off(m, row, observed):
            return f"{tp} {OFF}: looked at again"
    return ""


def _held_up(
    history: History, observed: Observed, moves: tuple[int, ...]
) -> Iterator[tuple[int, str]]:
    """Yield queued moves that have to wait, and for what: a move in flight is not overridden."""
    for index in moves:
        tp = history.moves[index].move.tp
        if tp in observed.reassignments:
            yield index, f"{tp} is being moved by somebody else: waited for, never overridden"
        elif tp in observed.hidden:
            yield index, observed.hidden[tp]


def _is_off(m: MoveHistory, row: PartitionRow | None, observed: Observed) -> bool:
    """Return whether a partition at rest has replicas that the plan does not know."""
    if row is None or m.move.tp in observed.reassignments:
        return False
    return row.replicas not in (m.move.before, m.move.after)


def _unseen(observed: Observed, tp: TopicPartition) -> str:
    again = f"{tp} is not in the cluster's description: looked for again"
    return observed.hidden.get(tp, again)


def _never_arrived(m: MoveHistory, observed: Observed) -> bool:
    """Return whether a submission without an answer has left no trace: the same is safe again."""
    row, tp = observed.rows.get(m.move.tp), m.move.tp
    return (
        m.phase is Phase.SUBMITTING
        and tp not in observed.reassignments
        and row is not None
        and row.replicas == m.move.before
        and observed.steady_seconds.get(tp, 0.0) >= _patience_seconds(m.tries)
    )


def _patience_seconds(tries: int) -> float:
    """Return how long to wait before another try: twice as long each time, up to a limit."""
    return min(LONGEST_SECONDS, 2.0 ** max(0, tries - 1))


def _waits_for(history: History, observed: Observed, flying: list[int]) -> str:
    for index in flying:
        m = history.moves[index]
        move = m.move
        if m.phase is Phase.SUBMITTING and m.put_off and move.tp not in observed.reassignments:
            return f"{move.tp} is not taken yet ({m.put_off}): it is asked again"
        down = [b for b in move.adding if b not in observed.alive]
        if down:
            return f"broker {down[0]} is down: {move.tp} waits for it"
        row = observed.rows.get(move.tp)
        if row is None:
            return _unseen(observed, move.tp)
        if row.leader < 0:
            return f"{move.tp} has no leader"
        if move.tp not in observed.reassignments and row.replicas == move.after:
            late = [b for b in move.after if b not in row.isr]
            if late:
                return f"{move.tp} has moved, but broker {late[0]} is not in its ISR"
    return ""


def _not_now(history: History, observed: Observed) -> str:
    """Return why no new batch should start now, or ""."""
    for index in history.queued:
        down = [b for b in history.moves[index].move.adding if b not in observed.alive]
        if down:
            return f"broker {down[0]} is down: no further batch starts"
    for tp, row in observed.rows.items():
        least = history.min_insync.get(tp.topic, 1)
        if len(row.isr) < min(least, len(row.replicas)):
            return f"{tp} has fewer than {least} replicas in sync: no further batch starts"
    return ""


# -- the end --------------------------------------------------------------------------------------


def _finish(history: History, observed: Observed) -> Step:
    for reason, left in still_held(history, observed):
        if history.leave_requested:
            return End(Outcome.INCOMPLETE, left)
        return Poll(f"{reason} (a cancel leaves it)")
    phases = [m.phase for m in history.moves]
    gone = [m for m in history.moves if m.phase is Phase.CANCELLED and m.why == GONE]
    done = phases.count(Phase.DONE)
    late = any(m.why for m in history.moves if m.phase is Phase.DONE)
    if gone and len(gone) == len(phases):
        return End(Outcome.INCOMPLETE, "nothing was left to move: every topic was deleted")
    if done + len(gone) == len(phases) and not late:
        return End(Outcome.DONE)
    if history.cancel_requested:
        return End(Outcome.CANCELLED)
    failed = [m for m in history.moves if m.phase is Phase.FAILED]
    why = history.stopped or (f"{failed[0].move.tp}: {failed[0].why}" if failed else "")
    return End(Outcome.INCOMPLETE if done else Outcome.FAILED, why)
