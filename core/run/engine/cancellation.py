"""Cancels moves where that is clean, and restores the order that replicas had."""

from __future__ import annotations

from collections import defaultdict

from core.run.engine.move_outcome import needs_order, never_ends
from core.run.journal.move_state import MoveRequest, Phase, Role, RunMove
from core.run.journal.run_state import RunState
from core.run.steps import AddedMove, AddMoves, Cancel, Observation, Reorder


def cancel_moves(run: RunState, observed: Observation) -> Cancel | Reorder | None:
    """Moves in flight are to be taken back: cancelled, then in the journalled order again."""
    clean, _ = _due(run, observed)
    cancel = [i for i in clean if run.moves[i].move.tp not in observed.moves_left]
    if cancel:
        return Cancel(tuple(cancel))
    reorder = [
        i
        for i, m in _moves_to_cancel(run)
        if m.move.tp not in observed.moves_left
        and (row := observed.rows.get(m.move.tp)) is not None
        and m.move.tp not in observed.reassignments
        and needs_order(m, observed, row)
    ]
    return Reorder(tuple(reorder)) if reorder else None


def not_clean(run: RunState, observed: Observation) -> str:
    """Return which move cannot be taken back now, or ""."""
    _, unclean = _due(run, observed)
    if not unclean:
        return ""
    move = run.moves[unclean[0]].move
    row = observed.rows.get(move.tp)
    late = ", ".join(str(b) for b in move.before if row is not None and b not in row.isr)
    remedy = f" (bring broker {late} back into step)" if late else ""
    why = "too few of its first replicas are in sync"
    on = "it is held on the floor, `resume` it" if run.rate_control.floored else "it goes on"
    return f"{move.tp} cannot be cancelled: {why}; {on}{remedy}"


def _moves_to_cancel(run: RunState) -> list[tuple[int, RunMove]]:
    moves = ((i, run.moves[i]) for i in run.in_flight)
    return [(i, m) for i, m in moves if m.request is MoveRequest.CANCEL]


def _due(run: RunState, observed: Observation) -> tuple[list[int], list[int]]:
    clean: list[int] = []
    unclean: list[int] = []
    for index, m in _moves_to_cancel(run):
        listed = observed.reassignments.get(m.move.tp)
        if listed is None or not (listed.target == m.move.after or never_ends(listed)):
            continue
        if not m.cancel_sent or observed.is_settled(m.move.tp):
            (clean if _can_cancel_cleanly(run, m, observed) else unclean).append(index)
    return clean, unclean


def _can_cancel_cleanly(run: RunState, m: RunMove, observed: Observation) -> bool:
    """Return whether a cancelled partition would keep enough replicas in sync.

    Where all that are in sync stay and no other is on its way, going on would bring nothing more.
    """
    row = observed.rows.get(m.move.tp)
    if row is None:
        return False
    reverted = [b for b in row.isr if b in m.move.before]
    before = len(m.move.before)
    needed = min(run.min_in_sync(m.move.tp.topic, before), before)
    coming = (observed.alive - observed.disks.keys()).intersection(m.move.receiving)
    kept = len(reverted) == len(row.isr) and not coming
    return bool(reverted) and (len(reverted) >= needed or kept)


# -- what goes somewhere else, or back ------------------------------------------------------------


def add_moves(run: RunState, _: Observation) -> AddMoves | None:
    """Moves that were taken back go elsewhere, or what is done goes back to where it was."""
    if run.rollback_requested:
        busy = run.in_flight or run.queued
        return None if busy else AddMoves(tuple(_back(run)), rollback=True)
    added: list[AddedMove] = []
    refused: list[tuple[int, str]] = []
    for index, m in enumerate(run.moves):
        if m.retarget is None or not m.phase.ended:
            continue
        if m.phase is Phase.DONE or m.replaced:
            refused.append((index, m.why or "it had moved before it could be taken elsewhere"))
        elif m.retarget == m.move.before:
            refused.append((index, f"{m.why}: it is where it is to go"))
        else:
            move = m.move.with_replicas(m.retarget)
            added.append(AddedMove(move, run.batches, Role.RETARGET, index, m.long))
    return AddMoves(tuple(added), tuple(refused)) if added or refused else None


def _back(run: RunState) -> list[AddedMove]:
    """Return the moves back of whatever has moved, partition by partition, in batches as before."""
    done: defaultdict[object, list[int]] = defaultdict(list)
    for index, m in enumerate(run.moves):
        if m.phase is Phase.DONE:
            done[m.move.tp].append(index)
    first = {m.move.tp: m.move for m in reversed(run.moves)}
    batches = sorted({run.moves[indices[-1]].batch for indices in done.values()})
    ranks = {batch: rank for rank, batch in enumerate(batches)}
    added: list[AddedMove] = []
    for indices in done.values():
        last = run.moves[indices[-1]]
        move = last.move.rollback_to(first[last.move.tp])
        if not (move.reassigns or move.dir_moves):
            continue
        batch = run.batches + ranks[last.batch]
        added.append(AddedMove(move, batch, Role.ROLLBACK, indices[-1], last.long))
    return added
