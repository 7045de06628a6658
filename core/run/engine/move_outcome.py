"""How a move ended, judged from the partition's state in the cluster.

A sight that could be a broker's delay is believed only after it has lasted (SETTLE_SECONDS).
"""

from __future__ import annotations

from collections.abc import Iterator

from core.cluster.metadata import PartitionRow, Reassignment
from core.run.engine import log_dir_moves as log_dirs
from core.run.journal.move_state import NOT_STARTED, TAKEN_BACK, MoveRequest, Phase, RunMove
from core.run.journal.run_state import RunState
from core.run.steps import Ending, Observation

CANCELLED_ELSEWHERE = "was cancelled by somebody else"
CHANGED_ELSEWHERE = "was changed by somebody else"
GONE = "its topic was deleted"
OFF = "has other replicas than planned from"
UNANSWERED_SECONDS = 15.0
"""So long after a submission without an answer it is not expected to act any more."""
STOPPING = (CANCELLED_ELSEWHERE, CHANGED_ELSEWHERE)


def endings(run: RunState, observed: Observation) -> Iterator[Ending]:
    """Yield how moves ended that the journal takes for queued or in flight."""
    for index, m in enumerate(run.moves):
        if m.phase.in_flight:
            ending = _ending(run, observed, index, m)
            if ending is None:
                continue
            # Without the run, and its limit, a copy of ours would go on: it is thrown away first.
            if ending.why != CHANGED_ELSEWHERE or not log_dirs.copies(m, observed):
                yield ending
        elif m.phase is Phase.QUEUED:
            if m.request is MoveRequest.CANCEL:
                yield Ending(index, Phase.CANCELLED, NOT_STARTED)
            elif m.request is MoveRequest.SKIP:
                yield Ending(index, Phase.SKIPPED, "skipped, as asked")
            elif run.stopped:
                yield Ending(index, Phase.CANCELLED, f"not started: {run.stopped}")


def _ending(run: RunState, observed: Observation, index: int, m: RunMove) -> Ending | None:
    """Return how a submitted move ended, or None while it goes on or cannot be told yet."""
    tp, move, cancelled = m.move.tp, m.move, m.request is MoveRequest.CANCEL
    steady = observed.is_settled(tp)
    listed, row = observed.reassignments.get(tp), observed.rows.get(tp)
    if listed is not None:
        if never_ends(listed):
            return None
        ours = listed.target in (move.after, move.before)
        return Ending(index, Phase.FAILED, CHANGED_ELSEWHERE) if steady and not ours else None
    if row is None:
        return Ending(index, Phase.CANCELLED, GONE) if tp in observed.gone else None
    if row.replicas == move.after:
        late = [b for b in move.after if b not in row.isr and move.reassigns]
        if late and cancelled and steady:
            why = f"done, but broker {late[0]} is not in its ISR"
            return Ending(index, Phase.DONE, why, row.leader)
        if late:
            return None
        return log_dirs.ending(index, m, observed, row.leader, left=run.leave_copies)
    if row.replicas == move.before:
        if cancelled and steady and (m.cancel_sent or _is_submission_lost(m, observed)):
            return Ending(index, Phase.CANCELLED, TAKEN_BACK, row.leader)
        if steady and m.phase is Phase.SUBMITTED and not cancelled:
            return Ending(index, Phase.FAILED, CANCELLED_ELSEWHERE, row.leader)
        if m.refused and _is_submission_lost(m, observed):
            return Ending(index, Phase.FAILED, m.refused, row.leader)
        if run.stopped and _is_submission_lost(m, observed):
            why = f"not started: {run.stopped}"
            return Ending(index, Phase.CANCELLED, why, row.leader)
        return None
    if cancelled and needs_order(m, observed, row):
        return None  # cancelled; its order is still to be put back
    return Ending(index, Phase.FAILED, CHANGED_ELSEWHERE, row.leader) if steady else None


def never_ends(listed: Reassignment) -> bool:
    """Return whether a move was overridden in place so that only a cancel ends it (4.3.1)."""
    return bool(set(listed.adding) & set(listed.removing))


def needs_order(m: RunMove, observed: Observation, row: PartitionRow) -> bool:
    """Return whether a cancelled partition is to be put into the order that it had.

    One that was overridden in place and then cancelled has kept replicas of its move as well.
    An old sight of a move that was done before the cancel came looks the same for a moment.
    """
    before, now = set(m.move.before), set(row.replicas)
    if row.replicas in (m.move.before, m.move.after):
        return False
    grown = m.cancel_intended and before < now <= before | set(m.move.after)
    return now == before or (grown and observed.is_settled(m.move.tp))


def _is_submission_lost(m: RunMove, observed: Observation) -> bool:
    """Return whether a submission may be taken for lost: one without an answer may act late."""
    waited = observed.steady_seconds.get(m.move.tp, 0.0)
    return m.phase is Phase.SUBMITTED or waited >= UNANSWERED_SECONDS
