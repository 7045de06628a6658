"""A run's progress: the pure fold of a journal into the RunView that screens and commands show.

Times are the journal's own, so a run on a simulated clock reads like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from core.plan.copies import Side
from core.plan.estimate.uncertainty import START_SECONDS
from core.run.journal.move_state import Outcome, Phase, RunMove
from core.run.journal.records import Kind, Record, Request, Sample
from core.run.journal.replay import fold
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import Key
from core.run.reporting.event_text import run_requests, story
from core.run.reporting.rates import (
    RecentRate,
    SamplePoint,
    at_work,
    brokers_now,
    failing_brokers,
    left_range,
    left_seconds,
    min_seconds,
    rate_now,
    recent,
    slowest_seconds,
    tracks,
)
from core.run.reporting.stuck_moves import (
    QuotaTurns,
    idle_seconds,
    is_held,
    never_sides,
    slowed,
    stuck,
)
from core.run.reporting.time_left import TimeLeft, time_left
from core.run.reporting.views import (
    DUE,
    IN_FLIGHT,
    Leftovers,
    LoweredRetention,
    MoveProgress,
    MoveStatus,
    RunStatus,
    RunView,
)
from core.run.throttles import external_removal as guard

FAIR_SHARE = 0.1
"""Of a run's bytes: before as many have come, its pace may be that of its easiest moves."""
_TAKEN_OUT = (Phase.CANCELLED, Phase.SKIPPED)


def run_view(
    records: Sequence[Record],
    samples: Sequence[Sample],
    *,
    living: bool,
    run: RunState | None = None,
    pending: Sequence[Request] = (),
) -> RunView:
    """Return the view of these records; `living` says whether the run's process is there.

    `pending` are requests that it has not taken up yet.
    """
    run = run or fold(records)
    tracked = tracks(samples)
    working = at_work(records, samples)
    counts = {i: track for i, track in tracked.items() if _is_in_total(run, run.moves[i])}
    recent_rate = recent(working, counts)
    never = never_sides(run, tracked)
    failing = failing_brokers(samples)
    last_event_at = max(filter(None, (run.last_at, samples[-1].at if samples else None)))
    state = _state(records, samples, run, living)
    turns = QuotaTurns(run, {} if state.ended else tracked)
    model = None if state.ended else time_left(run, tracked, working, last_event_at)
    moves = tuple(
        _move(run, i, m, tracked.get(i), failing, recent_rate, never, turns, model)
        for i, m in enumerate(run.moves)
    )
    if state.ended:  # whatever its last samples saw, nobody sees it now
        moves = tuple(
            replace(m, bytes_per_s=None, left_seconds=None, left_range=None) for m in moves
        )
    in_flight = [m for m in moves if m.state in IN_FLIGHT]
    counted = [m for m, known in zip(moves, run.moves, strict=True) if _is_in_total(run, known)]
    total = sum(m.total_bytes or 0 for m in counted)
    moved = sum(m.moved_bytes for m in counted)
    copied = sum(m.moved_bytes for m in counted if m.state is MoveStatus.DONE)
    due = sum((m.total_bytes or 0) - m.moved_bytes for m in counted if m.state in DUE)
    first = min((m.submitted_at for m in run.moves if m.submitted_at), default=None)
    last = samples[-1].at if samples and in_flight else (run.ended_at or last_event_at)
    elapsed = (last - first).total_seconds() if first else 0.0
    average = moved / elapsed if elapsed > 0 and moved else None
    rates = [m.bytes_per_s for m in in_flight if m.bytes_per_s is not None]
    now = sum(rates) if rates else None
    estimate = run.estimate or {}
    estimated = estimate.get("seconds")
    estimated_rate = estimate.get("rate_bytes_per_s", run.rate_bytes_per_s)
    is_as_estimated = estimated_rate == run.rate_bytes_per_s and all(
        m.instead_of is None for m in run.moves
    )
    left, between = None, None
    if not state.ended:
        if model is not None:
            # It plays what followers fetch, and no copies between log dirs.
            on = (Side.LOG_DIRS,)
            besides = max(min_seconds(run, moves, on), slowest_seconds(moves, recent_rate.of, on))
            left = max(model.seconds, besides)
            between = _widen_range(left, None)
        else:
            floor = min_seconds(run, moves)
            left, between = _left(recent_rate, elapsed, due, moved, estimated, floor)
            if between is not None:
                left, between = _with_floor(left, between, slowest_seconds(moves, recent_rate.of))
            is_early = moved < FAIR_SHARE * (moved + due) and "rate_bytes_per_s" in estimate
            if is_early and is_as_estimated and run.rate_control.bounds is None:
                left, between = _with_floor(left, between, (estimated or 0.0) * due / (moved + due))
    moves = tuple(_within(m, left, between) for m in moves)
    behind = leftovers(run) if state.ended else None
    newest = [tracked[i][-1] for i in run.in_flight if i in tracked]
    begun_at = None
    if first is not None and (run.start_at or run.retention or run.measured):  # it had to wait
        # An estimate reckons with some seconds from there to the first submission.
        begun_at = max(run.created_at, first - timedelta(seconds=START_SECONDS))
    return RunView(
        run=run.run_id,
        cluster_id=run.cluster_id,
        cluster_name=run.cluster_name,
        state=state,
        why=_why(run, state, last_event_at),
        pid=run.process.pid if run.process else None,
        started_at=run.created_at,
        ended_at=run.ended_at,
        last_event_at=last_event_at,
        rate_bytes_per_s=run.rate_bytes_per_s,
        total_bytes=total,
        moved_bytes=moved,
        bytes_per_s=None if state.ended else now,
        average_bytes_per_s=average,
        left_seconds=left,
        left_range=between,
        estimated_seconds=estimated if is_as_estimated else None,
        begun_at=begun_at,
        moves=moves,
        brokers=() if state.ended else brokers_now(run, tracked, failing[0]),
        events=story(records, run, copied),
        batches=run.batches,
        # That of a run which died, or gave up on a cluster that says no.
        leftovers=behind if behind or state is RunStatus.DIED else None,
        who=f"{run.who} on {run.host}",
        requests=run_requests(records, pending, run),
        starts_at=run.start_at,
        bounds=run.rate_control.bounds,
        passed_preflight=run.preflight,
        idle_seconds=None
        if state.ended
        else min((idle_seconds(run, point) for point in newest), default=None),
    )


def _widen_range(left: float, between: tuple[float, float] | None) -> tuple[float, float]:
    """Return a range of a time left, a tenth wide, and as wide as that of a pace."""
    low, high = between or (left, left)
    return min(low, 0.9 * left), max(high, 1.1 * left)


def _within(
    m: MoveProgress, left: float | None, between: tuple[float, float] | None
) -> MoveProgress:
    """Return a move whose time left is no longer than the whole's: it ends before that does."""
    if m.left_seconds is None:
        return m
    if left is None:
        return replace(m, left_seconds=None, left_range=None)
    of, floor = m.left_range, min(m.left_seconds, left)
    if of is not None:
        ceiling = max(left, between[1] if between else left)
        of = min(of[0], floor), max(floor, min(of[1], ceiling))
    return replace(m, left_seconds=floor, left_range=of)


def _is_in_total(run: RunState, m: RunMove) -> bool:
    """Return whether a move's bytes are part of the whole: not what was taken out on the way.

    A run that is cancelled as a whole is told of what it was to copy.
    """
    if m.phase is Phase.DONE:
        return True
    return not m.replaced and (run.cancel_requested or m.phase not in _TAKEN_OUT)


def _left(
    recent_rate: RecentRate,
    elapsed: float,
    due: int,
    moved: int,
    estimated: float | None,
    floor: float,
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the time left and its range: at the recent pace, or at the average.

    Until there is a pace it is what was estimated, which has no range.
    """
    average = left_seconds(elapsed, moved + due, moved)
    if estimated is not None and (recent_rate.bytes_per_s is None or average is None):
        left = estimated * due / (moved + due) if moved else max(0.0, estimated - elapsed)
        return max(left, floor), None
    if average is None:
        return None, None
    left = due / recent_rate.bytes_per_s if recent_rate.bytes_per_s else average
    return max(left, floor), left_range(due, recent_rate.bytes_per_s, moved / elapsed, floor)


def _with_floor(
    left: float | None, between: tuple[float, float] | None, floor: float
) -> tuple[float | None, tuple[float, float] | None]:
    """Return a time left and its range that are no less than something else says."""
    if left is None or floor <= left:
        return left, between
    return floor, between and (between[0], max(between[1], 1.1 * floor))


def leftovers(run: RunState) -> Leftovers:
    """Return what stands in the cluster because of this run, as far as its journal knows."""
    return Leftovers(
        moves=tuple(run.moves[i].move.tp for i in run.in_flight),
        copies=tuple(
            (run.moves[i].move.tp, broker)
            for i in run.in_flight
            for broker in run.moves[i].move.target_log_dirs
        ),
        lists=tuple((i.topic, i.side.value, i.pairs) for i in run.throttles.lists.values()),
        rates=tuple(r for r in run.throttles.rates.values() if r.rate_bytes_per_s is not None),
        retention=tuple(
            LoweredRetention(topic, run.retention.ms, intent.own_value)
            for topic, intent in run.retention.topics.items()
        )
        if run.retention is not None
        else (),
    )


def _state(
    records: Sequence[Record], samples: Sequence[Sample], run: RunState, living: bool
) -> RunStatus:
    if run.ended is Outcome.CANCELLED and run.rolling_back:
        return RunStatus.ROLLED_BACK
    if run.ended is not None:
        return RunStatus(run.ended.value)
    if not living or run.crashed:
        return RunStatus.DIED
    is_unobserved = not samples or samples[-1].at <= records[-1].at
    if records[-1].kind is Kind.STARTED and run.in_flight and is_unobserved:
        return RunStatus.RECOVERING
    if run.cancel_requested:
        return RunStatus.CANCELLING
    if run.rollback_requested:
        return RunStatus.ROLLING_BACK
    if run.paused or (guard.pauses(run) and run.queued):
        return RunStatus.PAUSED
    if run.rolling_back:
        return RunStatus.ROLLING_BACK
    if run.is_scheduled(run.last_at or run.created_at):
        return RunStatus.SCHEDULED
    if run.waiting:
        return RunStatus.WAITING
    return RunStatus.RUNNING if run.preflight else RunStatus.STARTING


def _why(run: RunState, state: RunStatus, last_event_at: datetime) -> str:
    if state is RunStatus.DIED:
        died = f"its process (pid {run.process.pid if run.process else '?'}) has died"
        why = run.crashed or died
        if not run.unsaved_passwords:
            return why
        keys = ", ".join(run.unsaved_passwords)
        return (
            f"{why}; what was typed for {keys} is gone with it: "
            f"trimtab runs attach {run.run_id} asks for it on a terminal"
        )
    if state is RunStatus.ROLLED_BACK:
        return ""  # its state says it
    if run.ended is not None:
        return run.ended_why
    if state.ended:
        return ""
    if run.waiting or not (run.in_flight or run.queued):
        return run.waiting
    return guard.reason(run, run.editor) if guard.interferes(run, last_event_at) else ""


def _move(
    run: RunState,
    index: int,
    m: RunMove,
    track: list[SamplePoint] | None,
    failing: tuple[frozenset[int], Mapping[int, str]],
    recent_rate: RecentRate,
    never: Mapping[Key, str],
    turns: QuotaTurns,
    model: TimeLeft | None,
) -> MoveProgress:
    newest = track[-1] if track else None
    size = newest.size_bytes if newest and newest.size_bytes is not None else m.size_bytes
    copies = len(m.move.receiving)
    total = 0 if not copies else None if size is None else size * copies
    arrived = newest.bytes if newest and m.phase is not Phase.QUEUED else 0
    moved = arrived if total is None else min(arrived, total)
    rate: float | None = None
    left: float | None = None
    between: tuple[float, float] | None = None
    average: float | None = None
    if newest and m.submitted_at is not None and newest.at > m.submitted_at:
        average = newest.bytes / (newest.at - m.submitted_at).total_seconds()
    why = m.why
    match m.phase:
        case Phase.QUEUED:
            state = MoveStatus.QUEUED
            if run.ended is not None:
                state, why = MoveStatus.CANCELLED, "not started"
        case Phase.DONE:
            state = MoveStatus.DONE
            moved = total = arrived if total is None else total
        case Phase.FAILED | Phase.CANCELLED | Phase.SKIPPED:
            state = MoveStatus(m.phase.value)
        case Phase.SUBMITTING | Phase.SUBMITTED:
            rate = rate_now(m, track)
            held = is_held(run, m)
            turn = "" if held else turns.waited_for(index)
            reason = stuck(run, m, track, failing, never, held=held, turn=bool(turn))
            state = MoveStatus.STUCK if reason else MoveStatus.MOVING
            floor = "as asked" if run.rate_control.floored else "ahead of its rate"
            why = reason or (f"held, {floor}" if held else turn or slowed(run, m))
            lately = recent_rate.of.get(index) or rate
            if lately and total is not None and not (reason or held):
                left = max(0.0, total - moved) / lately
                between = left_range(total - moved, lately, average)
            if model and index in model.of and not (reason or held):
                left = model.of[index]
                between = _widen_range(left, between)
    return MoveProgress(
        tp=m.move.tp,
        before=m.move.before,
        after=m.move.after,
        total_bytes=total,
        moved_bytes=moved,
        bytes_per_s=rate,
        left_seconds=left,
        state=state,
        why=why,
        batch=m.batch + 1,
        done_at=m.ended_at,
        average_bytes_per_s=average,
        left_range=between,
        held=bool(newest and newest.held and m.phase.in_flight),
        role=m.role,
        dir_moves=tuple(m.move.dir_moves.items()),
    )
