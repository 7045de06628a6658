"""A run's progress: the pure fold of a journal into the RunView that screens and commands show.

Times are the journal's own, so a run on a simulated clock reads like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from core.plan.estimate.uncertainty import START_SECONDS
from core.run.journal.fold import History, MoveHistory, Outcome, Phase
from core.run.journal.records import Kind, Record, Request, Sample
from core.run.journal.throttle_values import Side
from core.run.reporting.rates import (
    Point,
    Recent,
    at_work,
    average_of,
    brokers_now,
    least_seconds,
    left_range,
    left_seconds,
    rate_now,
    recent,
    slowest_seconds,
    tracks,
)
from core.run.reporting.request_words import run_requests
from core.run.reporting.story import story
from core.run.reporting.stuck_moves import Turns, is_held, never_sides, slowed, stuck
from core.run.reporting.time_left import TimeLeft, time_left
from core.run.reporting.views import (
    DUE,
    FLYING,
    Leftovers,
    LoweredRetention,
    MoveProgress,
    MoveState,
    RunState,
    RunSummary,
    RunView,
)
from core.run.throttles import removal as guard

FAIR_SHARE = 0.1
"""Of a run's bytes: before as many have come, its pace may be that of its easiest moves."""
_TAKEN_OUT = (Phase.CANCELLED, Phase.SKIPPED)


def run_view(
    records: Sequence[Record],
    samples: Sequence[Sample],
    *,
    living: bool,
    history: History | None = None,
    pending: Sequence[Request] = (),
) -> RunView:
    """Return the view of these records; `living` says whether the run's process is there.

    `pending` are requests that it has not taken up yet.
    """
    history = history or History.fold(records)
    tracked = tracks(samples)
    working = at_work(records, samples)
    pace = recent(working, _counted(history, tracked))
    never = never_sides(history, tracked)
    down = frozenset(samples[-1].payload["down"] if samples else ())
    failing = samples[-1].payload.get("disks", {}) if samples else {}
    disks = {int(broker): said for broker, said in failing.items()}
    seen_at = max(filter(None, (history.last_at, samples[-1].at if samples else None)))
    state = _state(records, samples, history, living)
    turns = Turns(history, {} if state.ended else tracked)
    model = None if state.ended else time_left(history, tracked, working, seen_at)
    moves = tuple(
        _move(history, i, m, tracked.get(i), (down, disks), pace, never, turns, model)
        for i, m in enumerate(history.moves)
    )
    if state.ended:  # whatever its last samples saw, nobody sees it now
        moves = tuple(
            replace(m, bytes_per_s=None, left_seconds=None, left_range=None) for m in moves
        )
    flying = [m for m in moves if m.state in FLYING]
    counted = [m for m, known in zip(moves, history.moves, strict=True) if _counts(history, known)]
    total = sum(m.total_bytes or 0 for m in counted)
    moved = sum(m.moved_bytes for m in counted)
    copied = sum(m.moved_bytes for m in counted if m.state is MoveState.DONE)
    due = sum((m.total_bytes or 0) - m.moved_bytes for m in counted if m.state in DUE)
    first = min((m.submitted_at for m in history.moves if m.submitted_at), default=None)
    last = samples[-1].at if samples and flying else (history.ended_at or seen_at)
    elapsed = (last - first).total_seconds() if first else 0.0
    average = moved / elapsed if elapsed > 0 and moved else None
    rates = [m.bytes_per_s for m in flying if m.bytes_per_s is not None]
    now = sum(rates) if rates else None
    estimated = history.estimate.get("seconds") if history.estimate else None
    left, between = None, None
    if not state.ended:
        if model is not None:
            # It plays what followers fetch, and no copies between log dirs.
            on = (Side.LOG_DIRS,)
            besides = max(least_seconds(history, moves, on), slowest_seconds(moves, pace.of, on))
            left = max(model.seconds, besides)
            between = _around(left, None)
        else:
            least = least_seconds(history, moves)
            left, between = _left(pace, elapsed, due, moved, estimated, least)
            if between is not None:
                left, between = _no_less(left, between, slowest_seconds(moves, pace.of))
            if moved < FAIR_SHARE * (moved + due):
                told = _as_estimated(history) * due / (moved + due)
                left, between = _no_less(left, between, told)
    moves = tuple(_within(m, left, between) for m in moves)
    return RunView(
        run=history.run,
        cluster_id=history.cluster_id,
        cluster_name=history.cluster_name,
        state=state,
        why=_why(history, state, seen_at),
        pid=history.process.pid if history.process else None,
        started_at=history.created_at,
        ended_at=history.ended_at,
        seen_at=seen_at,
        rate_bytes_per_s=history.rate_bytes_per_s,
        total_bytes=total,
        moved_bytes=moved,
        bytes_per_s=None if state.ended else now,
        average_bytes_per_s=average,
        left_seconds=left,
        left_range=between,
        estimated_seconds=estimated if _is_as_estimated(history) else None,
        begun_at=_begun_at(history, first),
        moves=moves,
        brokers=() if state.ended else brokers_now(history, tracked, down),
        events=story(records, history, copied),
        batches=history.batches,
        leftovers=_left_behind(history, state),
        who=f"{history.who} on {history.host}",
        requests=run_requests(records, pending, history),
        starts_at=history.start_at,
        bounds=history.pace.bounds,
        passed_preflight=history.preflight,
    )


def _around(left: float, pace: tuple[float, float] | None) -> tuple[float, float]:
    """Return a range of a time left, a tenth wide, and as wide as that of a pace."""
    low, high = pace or (left, left)
    return min(low, 0.9 * left), max(high, 1.1 * left)


def _within(
    m: MoveProgress, left: float | None, between: tuple[float, float] | None
) -> MoveProgress:
    """Return a move whose time left is no longer than the whole's: it ends before that does."""
    if m.left_seconds is None:
        return m
    if left is None:
        return replace(m, left_seconds=None, left_range=None)
    of, least = m.left_range, min(m.left_seconds, left)
    if of is not None:
        most = max(left, between[1] if between else left)
        of = min(of[0], least), max(least, min(of[1], most))
    return replace(m, left_seconds=least, left_range=of)


def _counts(history: History, m: MoveHistory) -> bool:
    """Return whether a move's bytes are part of the whole: not what was taken out on the way.

    A run that is cancelled as a whole is told of what it was to copy.
    """
    if m.phase is Phase.DONE:
        return True
    return not m.replaced and (history.cancel_requested or m.phase not in _TAKEN_OUT)


def _counted(
    history: History, tracked: Mapping[int, Sequence[Point]]
) -> dict[int, Sequence[Point]]:
    """Return the samples of those moves whose bytes count."""
    return {i: track for i, track in tracked.items() if _counts(history, history.moves[i])}


def _left(
    pace: Recent, elapsed: float, due: int, moved: int, estimated: float | None, least: float
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the time left and its range: at the recent pace, or at the average.

    Until there is a pace it is what was estimated, which has no range.
    """
    average = left_seconds(elapsed, moved + due, moved)
    if estimated is not None and (pace.bytes_per_s is None or average is None):
        left = estimated * due / (moved + due) if moved else max(0.0, estimated - elapsed)
        return max(left, least), None
    if average is None:
        return None, None
    left = due / pace.bytes_per_s if pace.bytes_per_s else average
    return max(left, least), left_range(due, pace.bytes_per_s, moved / elapsed, least)


def _no_less(
    left: float | None, between: tuple[float, float] | None, least: float
) -> tuple[float | None, tuple[float, float] | None]:
    """Return a time left and its range that are no less than something else says."""
    if left is None or least <= left:
        return left, between
    return least, between and (between[0], max(between[1], 1.1 * least))


def _as_estimated(history: History) -> float:
    """Return the seconds estimated for the whole run; 0 once they were for something else."""
    estimate = history.estimate or {}
    same = "rate_bytes_per_s" in estimate and _is_as_estimated(history)
    return estimate.get("seconds") or 0.0 if same and history.pace.bounds is None else 0.0


def _is_as_estimated(history: History) -> bool:
    """Return whether it does what was estimated: those moves, at that rate."""
    asked = (history.estimate or {}).get("rate_bytes_per_s", history.rate_bytes_per_s)
    added = any(m.instead_of is not None for m in history.moves)
    return asked == history.rate_bytes_per_s and not added


def _begun_at(history: History, first: datetime | None) -> datetime | None:
    """Return when it set about its moves, `first` of which were then submitted, if it had to wait.

    An estimate reckons with some seconds from there to the first submission.
    """
    waited = history.start_at or history.retention or history.measured
    if first is None or not waited:
        return None
    return max(history.created_at, first - timedelta(seconds=START_SECONDS))


def summary(view: RunView) -> RunSummary:
    return RunSummary(
        run=view.run,
        cluster_id=view.cluster_id,
        state=view.state,
        started_at=view.started_at,
        ended_at=view.ended_at,
        moves=view.partitions,
        done=view.done,
        moved_away=view.moved_away,
        total_bytes=view.total_bytes,
        moved_bytes=view.moved_bytes,
        rate_bytes_per_s=view.rate_bytes_per_s,
        who=view.who,
        seconds=view.elapsed_seconds,
        estimated_seconds=view.estimated_seconds,
    )


def leftovers(history: History) -> Leftovers:
    """Return what stands in the cluster because of this run, as far as its journal knows."""
    return Leftovers(
        moves=tuple(history.moves[i].move.tp for i in history.in_flight),
        copies=tuple(
            (history.moves[i].move.tp, broker)
            for i in history.in_flight
            for broker in history.moves[i].move.wanted_dirs
        ),
        lists=tuple((i.topic, i.side.value, i.pairs) for i in history.lists.values()),
        rates=tuple(r for r in history.rates.values() if r.rate_bytes_per_s is not None),
        retention=tuple(_lowered(history)),
    )


def _lowered(history: History) -> Iterator[LoweredRetention]:
    """Yield the topics whose retention is lowered, or may be: whatever is not put back yet."""
    if history.retention is not None:
        for topic, intent in history.retention.topics.items():
            yield LoweredRetention(topic, history.retention.ms, intent.own_value)


def _left_behind(history: History, state: RunState) -> Leftovers | None:
    """Return what a run left that died, or that gave up on a cluster which says no."""
    left = leftovers(history) if state.ended else None
    return left if left or state is RunState.DIED else None


def _state(
    records: Sequence[Record], samples: Sequence[Sample], history: History, living: bool
) -> RunState:
    if history.ended is Outcome.CANCELLED and history.rolling_back:
        return RunState.ROLLED_BACK
    if history.ended is not None:
        return RunState(history.ended.value)
    if not living or history.crashed:
        return RunState.DIED
    unseen = not samples or samples[-1].at <= records[-1].at
    if records[-1].kind is Kind.STARTED and history.in_flight and unseen:
        return RunState.RECOVERING
    if history.cancel_requested:
        return RunState.CANCELLING
    if history.rollback_requested:
        return RunState.ROLLING_BACK
    if history.paused or (guard.pauses(history) and history.queued):
        return RunState.PAUSED
    if history.rolling_back:
        return RunState.ROLLING_BACK
    if history.is_scheduled(history.last_at or history.created_at):
        return RunState.SCHEDULED
    if history.waiting:
        return RunState.WAITING
    return RunState.RUNNING if history.preflight else RunState.STARTING


def _why(history: History, state: RunState, seen_at: datetime) -> str:
    if state is RunState.DIED:
        died = f"its process (pid {history.process.pid if history.process else '?'}) has died"
        why = history.crashed or died
        if not history.unsaved_passwords:
            return why
        keys = ", ".join(history.unsaved_passwords)
        return (
            f"{why}; what was typed for {keys} is gone with it: "
            f"trimtab runs attach {history.run} asks for it on a terminal"
        )
    if state is RunState.ROLLED_BACK:
        return ""  # its state says it
    if history.ended is not None:
        return history.ended_why
    if state.ended:
        return ""
    at_it = history.in_flight or history.queued
    taken = at_it and guard.interferes(history, seen_at)
    return history.waiting or (guard.reason(history, history.editor) if taken else "")


def _move(
    history: History,
    index: int,
    m: MoveHistory,
    track: list[Point] | None,
    ailing: tuple[frozenset[int], Mapping[int, str]],
    pace: Recent,
    never: Mapping[tuple[int, Side], str],
    turns: Turns,
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
    average = average_of(m, track)
    why = m.why
    match m.phase:
        case Phase.QUEUED:
            state = MoveState.QUEUED
            if history.ended is not None:
                state, why = MoveState.CANCELLED, "not started"
        case Phase.DONE:
            state = MoveState.DONE
            moved = total = arrived if total is None else total
        case Phase.FAILED:
            state = MoveState.FAILED
        case Phase.CANCELLED:
            state = MoveState.CANCELLED
        case Phase.SKIPPED:
            state = MoveState.SKIPPED
        case Phase.SUBMITTING | Phase.SUBMITTED:
            rate = rate_now(m, track)
            held = is_held(history, m)
            turn = "" if held else turns.waited_for(index)
            reason = stuck(
                m, track, *ailing, never, held=held, turn=bool(turn), unheld_at=history.unheld_at
            )
            state = MoveState.STUCK if reason else MoveState.MOVING
            floor = "as asked" if history.pace.floored else "ahead of its rate"
            why = reason or (f"held, {floor}" if held else turn or slowed(history, m))
            lately = pace.of.get(index) or rate
            if lately and total is not None and not (reason or held):
                left = max(0.0, total - moved) / lately
                between = left_range(total - moved, lately, average)
            if model and index in model.of and not (reason or held):
                left = model.of[index]
                between = _around(left, between)
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
