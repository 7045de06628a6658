"""Submission: which moves are submitted next or again, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterator

from core.cluster.metadata import TopicPartition
from core.plan.batch_schedule import WINDOW_SECONDS, InFlightMove, may_start, select_fitting
from core.plan.copies import Side
from core.run import steps
from core.run.engine import log_dir_moves as log_dirs
from core.run.engine.cancellation import not_clean
from core.run.engine.move_outcome import GONE, OFF, never_ends
from core.run.journal.move_state import MoveRequest, Phase, RunMove
from core.run.journal.run_state import RunState
from core.run.steps import Observation
from core.run.throttles import external_removal as guard
from core.run.throttles.rules import set_missing_rates
from core.units import UNLIMITED

LONGEST_SECONDS = 30.0
"""The longest time between two tries to submit the same."""
MAX_JOURNALLED_TRIES = 8
"""So many tries to submit the same are journalled; later ones as something comes of them."""


def retry_submission(run: RunState, observed: Observation) -> steps.Submit | None:
    """A submission without an answer has left no trace: the same is safe again."""
    lost = tuple(i for i in run.in_flight if _may_resubmit(run.moves[i], observed))
    if not lost or run.paused or run.stopped or _no_start_reason(run, observed, lost):
        return None
    return steps.Submit(lost)


def begin_next_batch(
    run: RunState, observed: Observation
) -> steps.Poll | steps.NoteEnded | steps.Postpone | steps.ThrottleSetup | steps.Submit | None:
    """The next batch begins, or it is waited for what is in flight or speaks against it."""
    in_flight = run.in_flight
    batch = run.next_batch
    sizes = [_in_flight_move(run.moves[i]) for i in batch]
    flights = [_in_flight_move(run.moves[i]) for i in in_flight]
    fitting = tuple(batch[at] for at in select_fitting(sizes, flights, run.max_extra_bytes))
    moves = guard.begins_within(run, observed.now, fitting)
    if in_flight and not (moves and _may_start_batch(run, observed, moves)):
        return steps.Poll(_waiting_reason(run, observed, in_flight))
    if not fitting:
        return None
    if run.paused:
        return steps.Poll("paused, as asked")
    if not moves:
        return steps.Poll(guard.reason(run, observed.editor))
    reason = _no_start_reason(run, observed, moves)
    if reason:
        return steps.Poll(reason)
    return _conflict(run, observed, moves) or _throttle(run, observed, moves) or steps.Submit(moves)


def _may_start_batch(run: RunState, observed: Observation, moves: tuple[int, ...]) -> bool:
    """Return whether a batch may begin although moves of earlier ones are in flight."""
    if run.paused:
        return False
    batch = [_in_flight_move(run.moves[i]) for i in moves]
    in_flight = [_in_flight_move(run.moves[i]) for i in run.in_flight]
    since = observed.since_submission_seconds
    if run.guarded:  # parts of batches begin, one after the other, as soon as they may
        begun = {flight.batch for flight in batch}
        batch += [flight for flight in in_flight if flight.batch in begun]
        in_flight = [flight for flight in in_flight if flight.batch not in begun]
        since = WINDOW_SECONDS
    if not run.explicit:
        return not in_flight
    return may_start(batch, in_flight, since, max_extra_bytes=run.max_extra_bytes)


def _in_flight_move(m: RunMove) -> InFlightMove:
    return InFlightMove(m.batch, m.long, m.move.adding, m.size_bytes or 0)


def _conflict(
    run: RunState, observed: Observation, moves: tuple[int, ...]
) -> steps.NoteEnded | steps.Postpone | steps.Poll | None:
    """Return what is to be done about moves of a batch that cannot be submitted now, or None."""
    spoiled: list[steps.Ending] = []
    doubtful = ""
    for index in moves:
        m = run.moves[index]
        tp, row = m.move.tp, observed.rows.get(m.move.tp)
        at_rest = row is not None and tp not in observed.reassignments
        if row is None and tp in observed.gone:
            spoiled.append(steps.Ending(index, Phase.CANCELLED, GONE))
        elif row is None and tp not in observed.hidden:
            doubtful = doubtful or _not_described(observed, tp)
        elif row is not None and at_rest and row.replicas not in (m.move.before, m.move.after):
            if observed.is_settled(tp):
                spoiled.append(steps.Ending(index, Phase.FAILED, OFF, row.leader))
            doubtful = doubtful or f"{tp} {OFF}: looked at again"
    if spoiled:
        return steps.NoteEnded(tuple(spoiled))
    if doubtful:
        return steps.Poll(doubtful)
    held = dict(_blocked_moves(run, observed, moves))
    if not held:
        return None
    why = next(iter(held.values()))
    # Behind whatever nothing holds up, now: also what was put off before.
    all_held = dict(_blocked_moves(run, observed, tuple(run.queued)))
    return steps.Postpone(tuple(held), why) if len(all_held) < len(run.queued) else steps.Poll(why)


def _throttle(
    run: RunState, observed: Observation, moves: tuple[int, ...]
) -> steps.ThrottleSetup | None:
    batch = run.moves[moves[0]].batch
    throttle = run.throttles.batches.get(batch)
    if throttle is not None and not throttle.set:
        return steps.SetThrottles(batch)
    begin = (i for i in moves if run.moves[i].move.receiving)
    bare = tuple(i for i in begin if not run.moves[i].limited)
    if bare and run.rate_bytes_per_s != UNLIMITED:
        return steps.IntendThrottles(batch, bare)
    if throttle is None:
        return None
    return set_missing_rates(run, observed, batch, (run.moves[i].move for i in moves))


def _blocked_moves(
    run: RunState, observed: Observation, moves: tuple[int, ...]
) -> Iterator[tuple[int, str]]:
    """Yield queued moves that have to wait, and for what: a move in flight is not overridden."""
    for index in moves:
        tp = run.moves[index].move.tp
        if tp in observed.reassignments:
            yield index, f"{tp} is being moved by somebody else: waited for, never overridden"
        elif tp in observed.hidden:
            yield index, observed.hidden[tp]


def _not_described(observed: Observation, tp: TopicPartition) -> str:
    return observed.hidden.get(tp, f"{tp} is not in the cluster's description: looked for again")


def _may_resubmit(m: RunMove, observed: Observation) -> bool:
    """Return whether a submission without an answer has left no trace: the same is safe again."""
    row, tp = observed.rows.get(m.move.tp), m.move.tp
    patience = min(LONGEST_SECONDS, 2.0 ** max(0, m.tries - 1))
    rested = observed.since_submission_seconds >= LONGEST_SECONDS
    return (
        m.phase is Phase.SUBMITTING
        and m.request is MoveRequest.CONTINUE
        and not m.refused
        and tp not in observed.reassignments
        and row is not None
        and row.replicas == m.move.before
        and observed.steady_seconds.get(tp, 0.0) >= patience
        and (m.tries < MAX_JOURNALLED_TRIES or rested)
    )


def _waiting_reason(run: RunState, observed: Observation, in_flight: list[int]) -> str:
    unclean = not_clean(run, observed)
    if unclean:
        return unclean
    for index in in_flight:
        m = run.moves[index]
        move = m.move
        listed = observed.reassignments.get(move.tp)
        if listed is not None and never_ends(listed):
            return f"{move.tp} was overridden in place and never ends by itself: cancel it"
        if m.refused and move.tp not in observed.reassignments:
            return f"{move.tp} is {m.refused}: whether an earlier try acts late is waited for"
        reason = _no_start_reason(run, observed, (index,)) if _may_resubmit(m, observed) else ""
        if reason:
            return reason
        if m.phase is Phase.SUBMITTING and m.put_off and move.tp not in observed.reassignments:
            return f"{move.tp} is not taken yet ({m.put_off}): it is asked again"
        cancelled = m.request is MoveRequest.CANCEL
        down = [b for b in move.receiving if b not in observed.alive]
        if down:
            leaves = " (a further cancel leaves it)" if cancelled and not move.reassigns else ""
            return f"broker {down[0]} is down: {move.tp} waits for it{leaves}"
        full = [b for b in move.receiving if b in observed.disks]
        if full and not cancelled:
            return f"{observed.disks[full[0]]}: {move.tp} may not end; cancel or retarget it"
        row = observed.rows.get(move.tp)
        if row is None:
            return _not_described(observed, move.tp)
        if row.leader < 0:
            return f"{move.tp} has no leader"
        if move.tp not in observed.reassignments and row.replicas == move.after:
            late = [b for b in move.after if b not in row.isr and move.reassigns]
            if late:
                gone = "" if late[0] in observed.alive else ": it is down"
                return f"{move.tp} has moved, but broker {late[0]} is not in its ISR{gone}"
            silent = log_dirs.silent_broker(m, observed)
            if silent is not None:
                return f"broker {silent} does not tell where {move.tp} lies: asked again"
    for index in in_flight:
        if run.moves[index].batch in observed.backing_off:
            return observed.backing_off[run.moves[index].batch]
    for left in (
        *(observed.moves_left, observed.left_alone),
        *(observed.retention_left, observed.dirs_left_alone),
    ):
        if left:
            return next(iter(left.values()))
    if not run.paused:
        return ""
    how = "is held" if run.rate_control.floored else "goes on"
    rates = run.rate_control.rates.items()
    theirs = [b for (b, side), held in rates if held.theirs and side is not Side.LEADER]
    if run.rate_control.floored and theirs:
        how += f", but on broker {theirs[0]}, whose rate somebody else has set: ask once more"
    return f"paused, as asked: what is in flight {how}"


def _no_start_reason(run: RunState, observed: Observation, moves: tuple[int, ...]) -> str:
    for index in moves:
        full = [b for b in run.moves[index].move.receiving if b in observed.disks]
        if full:
            return f"{observed.disks[full[0]]}: no further batch starts"
    for index in (*moves, *run.queued):
        down = [b for b in run.moves[index].move.receiving if b not in observed.alive]
        if down:
            return f"broker {down[0]} is down: no further batch starts"
    for tp, row in observed.rows.items():
        in_flight = observed.reassignments.get(tp)
        coming = in_flight.adding if in_flight else ()
        needed = run.min_in_sync(tp.topic, len(row.replicas) - len(coming))
        late = [b for b in row.replicas if b not in row.isr and b not in coming]
        # A broker that is down has other reasons than our copies; moving off it is the remedy.
        if len(row.isr) < min(needed, len(row.replicas)) and not observed.alive.isdisjoint(late):
            known = "" if tp.topic in run.min_insync else ", min.insync.replicas is not known"
            return f"{tp} has fewer than {needed} replicas in sync{known}: no further batch starts"
    return ""
