"""Completes a run: restores retention, elects preferred leaders, records how it ended."""

from __future__ import annotations

from core.cluster.configs import Resource
from core.run.engine import log_dir_moves as log_dirs
from core.run.engine.move_outcome import GONE
from core.run.journal.move_state import (
    DIRS_AS_BEFORE,
    NOT_STARTED,
    TAKEN_BACK,
    Outcome,
    Phase,
    Role,
    RunMove,
)
from core.run.journal.run_state import RunState
from core.run.steps import (
    ElectLeaders,
    End,
    LowerRetention,
    NoteLogsShortened,
    Observation,
    Poll,
    RestoreRetention,
)
from core.run.throttles.rules import still_held

MAX_ELECTED_AT_ONCE = 200
"""Leaders that change in one call: clients of them all look for new ones at once."""
MAX_ELECTIONS = 12
"""How often a preferred leader that is not in sync is elected again, some seconds apart."""


def shorten_logs(
    run: RunState, observed: Observation
) -> LowerRetention | NoteLogsShortened | Poll | None:
    """Logs are made shorter before anything is copied, when that is asked for."""
    retention = run.retention
    if retention is None or retention.awaited or not run.queued or run.paused:
        return None
    if not retention.lowered:
        return LowerRetention()
    if observed.shorter:
        return NoteLogsShortened()
    return Poll("retention is lowered: waits for leaders to delete what is too old")


def restore_retention(run: RunState, observed: Observation) -> RestoreRetention | None:
    """Retention is put back as a topic's last move ends, which one to be retargeted has not."""
    if run.retention is None:
        return None
    going = (m for m in run.moves if not m.phase.ended or m.retarget is not None)
    busy = {m.move.tp.topic for m in going}
    idle = tuple(
        topic
        for topic in run.retention.topics
        if topic not in busy and Resource.topic(topic) not in observed.retention_left
    )
    return RestoreRetention(idle) if idle else None


def elect(run: RunState, _: Observation) -> ElectLeaders | Poll | None:
    """Preferred leaders are elected at the end, when that is asked for."""
    if not run.elect or run.cancel_requested or run.in_flight or run.queued:
        return None
    due = next_to_elect(run)
    if due and run.paused:
        return Poll("paused, as asked: leaders are not elected yet")
    return ElectLeaders(due[:MAX_ELECTED_AT_ONCE]) if due else None


def next_to_elect(run: RunState) -> tuple[int, ...]:
    """Return the moves whose preferred leader is to be elected next: who had fewest turns."""
    due = {
        index: m.elections
        for index, m in enumerate(run.moves)
        if _moved(m) and not m.elected and m.elections < MAX_ELECTIONS
    }
    return tuple(index for index, turns in due.items() if turns == min(due.values()))


def finish(run: RunState, observed: Observation) -> Poll | End:
    """Nothing is left to do but to wait for what is held, and to say how it ended."""
    held = tuple(still_held(run, observed))
    awaited = [reason for reason, _, broker in held if not _may_leave_held(run, broker)]
    if awaited:
        return Poll(f"{awaited[0]} (a cancel leaves it)")
    if held:
        return End(Outcome.INCOMPLETE, held[0][1])
    outcome, why = _outcome(run)
    late = [m for m in run.moves if _moved(m) and not m.elected] if run.elect else []
    if late and outcome is Outcome.DONE:
        rest = f" and {len(late) - 1} more" if len(late) > 1 else ""
        return End(outcome, f"the preferred leader of {late[0].move.tp}{rest} was not elected")
    return End(outcome, why)


def _may_leave_held(run: RunState, broker: int | None) -> bool:
    """Return whether to leave what is held, by a `broker` that is down or otherwise.

    Where a copy was left, as asked, its broker is not waited for because of its rate either.
    """
    if run.leave_requested or broker is None:
        return run.leave_requested
    return any(log_dirs.copy_left(broker) in m.why for m in run.moves)


def _moved(m: RunMove) -> bool:
    return m.phase is Phase.DONE and not m.replaced


def _outcome(run: RunState) -> tuple[Outcome, str]:
    counted = [m for m in run.moves if not m.replaced]
    gone = [m for m in counted if m.phase is Phase.CANCELLED and m.why == GONE]
    skipped = [m for m in counted if m.phase is Phase.SKIPPED]
    done = [m for m in counted if m.phase is Phase.DONE]
    if run.rolling_back:
        return _rollback_outcome(run)
    if gone and len(gone) == len(counted):
        return Outcome.INCOMPLETE, "nothing was left to move: every topic was deleted"
    whole = len(done) + len(gone) + len(skipped) == len(counted)
    if whole and not any(m.why for m in done):
        return Outcome.DONE, f"{len(skipped):,} skipped, as asked" if skipped else ""
    failed = [m for m in counted if m.phase is Phase.FAILED]
    if run.cancel_requested:
        if failed:
            return Outcome.INCOMPLETE, f"{failed[0].move.tp}: {failed[0].why}"
        return Outcome.CANCELLED, "".join(_unusual_cancels(counted)[:1])
    cancelled = [m for m in counted if m.phase is Phase.CANCELLED and m.why != GONE]
    if cancelled and not failed and not run.stopped:
        if not done:
            return Outcome.CANCELLED, "".join(_unusual_cancels(counted)[:1])
        words = f"{cancelled[0].move.tp} was cancelled, as asked"
        return Outcome.INCOMPLETE, next(iter(_unusual_cancels(counted)), words)
    blamed = failed or [m for m in done if m.why]
    why = run.stopped or (f"{blamed[0].move.tp}: {blamed[0].why}" if blamed else "")
    return Outcome.INCOMPLETE if done else Outcome.FAILED, why


def _unusual_cancels(moves: list[RunMove]) -> list[str]:
    """Return which moves were cancelled otherwise than by just being taken back, and how."""
    usual = (GONE, NOT_STARTED, TAKEN_BACK, DIRS_AS_BEFORE)
    of = [m for m in moves if m.phase is Phase.CANCELLED and m.why not in usual]
    return [f"{m.move.tp}: {m.why}" for m in of]


def _rollback_outcome(run: RunState) -> tuple[Outcome, str]:
    back = [m for m in run.moves if m.role is Role.ROLLBACK]
    left = [m for m in back if m.phase is not Phase.DONE and m.why != GONE]
    if left:
        return Outcome.INCOMPLETE, f"{left[0].move.tp} was not rolled back: {left[0].why}"
    other = [m for m in run.moves if m.phase is Phase.FAILED and not m.replaced]
    if other:
        return Outcome.INCOMPLETE, f"{other[0].move.tp}: {other[0].why}"
    return Outcome.CANCELLED, "rolled back"
