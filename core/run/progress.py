"""A run's progress: the pure fold of a journal into the RunView that screens and commands show.

Times are the journal's own, so a run on a simulated clock reads like any other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.run.history import History, MoveHistory, Outcome, Phase
from core.run.journal import Journal, JournalError, Record, Sample, journal_path
from core.run.story import side_word, story
from core.run.throttle import RateIntent, Side
from core.run.view import (
    BrokerProgress,
    Leftovers,
    Level,
    MoveProgress,
    MoveState,
    RunEvent,
    RunState,
    RunSummary,
    RunView,
)
from core.units import format_rate

__all__ = [
    "BrokerProgress",
    "Leftovers",
    "Level",
    "MoveProgress",
    "MoveState",
    "Reading",
    "RunEvent",
    "RunState",
    "RunSummary",
    "RunView",
    "left_seconds",
    "minutes_left",
    "read_journal",
    "read_run",
    "run_view",
    "summary",
]

RATE_SECONDS = 12.0
"""Rates *now* are over one quota window: within it a throttled copy stalls and bursts."""
STUCK_SECONDS = 30.0
"""No byte for this long, longer than two quota windows, is stuck."""
GROWTH_SECONDS = 20.0
STARTING_SECONDS = 30.0


def left_seconds(elapsed: float, total_bytes: float, moved_bytes: float) -> float | None:
    """Return the time left at the average so far; None while nothing has moved."""
    if moved_bytes <= 0 or elapsed <= 0:
        return None
    return max(0.0, elapsed * (total_bytes - moved_bytes) / moved_bytes)


def minutes_left(elapsed: float, total_bytes: float, moved_bytes: float) -> int | None:
    """Return `left_seconds` in whole minutes."""
    left = left_seconds(elapsed, total_bytes, moved_bytes)
    return None if left is None else round(left / 60)


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a journal: the view, and what it was made from."""

    view: RunView
    records: tuple[Record, ...]
    history: History


def read_run(cluster_id: str, run: str) -> RunView:
    """Return a run as its journal tells it; raises JournalError when it cannot be read."""
    return read_journal(cluster_id, run).view


def read_journal(cluster_id: str, run: str) -> Reading:
    """Return one look at a run's journal; raises JournalError when it cannot be read."""
    path = journal_path(cluster_id, run)
    with Journal.open(path) as journal:
        history = _fold(path, records := journal.records())
        living = history.ended is not None or _is_living(path, history)
        if not living:
            # It may have ended well since it was read; what a dead process wrote is final.
            history = _fold(path, records := journal.records())
        samples = journal.samples()
    return Reading(run_view(records, samples, living=living, history=history), records, history)


def _fold(path: Path, records: Iterable[Record]) -> History:
    try:
        return History.fold(records)
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"The journal {path} is damaged: {error}.") from error


def _is_living(path: Path, history: History) -> bool:
    if history.process is not None:
        return history.process.alive
    return time.time() - path.stat().st_mtime < STARTING_SECONDS


def run_view(
    records: Sequence[Record],
    samples: Sequence[Sample],
    *,
    living: bool,
    history: History | None = None,
) -> RunView:
    """Return the view of these records; `living` says whether the run's process is there."""
    history = history or History.fold(records)
    tracks = _tracks(samples)
    down = frozenset(samples[-1].payload["down"] if samples else ())
    seen_at = max(filter(None, (history.last_at, samples[-1].at if samples else None)))
    moves = tuple(_move(history, i, m, tracks.get(i), down) for i, m in enumerate(history.moves))
    state = _state(history, living)
    flying = [m for m in moves if m.state in (MoveState.MOVING, MoveState.STUCK)]
    total = sum(m.total_bytes or 0 for m in moves)
    moved = sum(m.moved_bytes for m in moves)
    first = min((m.submitted_at for m in history.moves if m.submitted_at), default=None)
    last = samples[-1].at if samples and flying else (history.ended_at or seen_at)
    elapsed = (last - first).total_seconds() if first else 0.0
    average = moved / elapsed if elapsed > 0 and moved else None
    now = sum(m.bytes_per_s or 0.0 for m in flying) if flying and samples else None
    estimated = history.estimate.get("seconds") if history.estimate else None
    left = None if state.ended else left_seconds(elapsed, total, moved)
    if left is None and not state.ended and estimated is not None:
        left = max(0.0, estimated - elapsed)
    least = _least_seconds(history, moves)
    if left is not None:
        left = max(left, least)
    return RunView(
        run=history.run,
        cluster_id=history.cluster_id,
        cluster_name=history.cluster_name,
        state=state,
        why=_why(history, state),
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
        left_range=None if left is None else _range(total - moved, now, average, least),
        estimated_seconds=estimated,
        moves=moves,
        brokers=() if state.ended else _brokers(history, tracks, down),
        events=story(records, history),
        batches=history.batches,
        leftovers=_left_behind(history, state),
        who=f"{history.who} on {history.host}",
    )


def summary(view: RunView) -> RunSummary:
    return RunSummary(
        run=view.run,
        cluster_id=view.cluster_id,
        state=view.state,
        started_at=view.started_at,
        ended_at=view.ended_at,
        moves=len(view.moves),
        done=view.done,
        total_bytes=view.total_bytes,
        moved_bytes=view.moved_bytes,
        rate_bytes_per_s=view.rate_bytes_per_s,
        who=view.who,
    )


def leftovers(history: History) -> Leftovers:
    """Return what stands in the cluster because of this run, as far as its journal knows."""
    return Leftovers(
        moves=tuple(history.moves[i].move.tp for i in history.in_flight),
        lists=tuple((i.topic, i.side.value, i.pairs) for i in history.lists.values()),
        rates=tuple(
            (r.broker, r.side.value, r.rate_bytes_per_s)
            for r in history.rates.values()
            if r.rate_bytes_per_s is not None
        ),
    )


def _left_behind(history: History, state: RunState) -> Leftovers | None:
    """Return what a run left that died, or that gave up on a cluster which says no."""
    left = leftovers(history) if state.ended else None
    return left if left or state is RunState.DIED else None


def _state(history: History, living: bool) -> RunState:
    if history.ended is not None:
        return RunState(history.ended.value)
    if not living:
        return RunState.DIED
    if history.cancel_requested:
        return RunState.CANCELLING
    if history.waiting:
        return RunState.WAITING
    return RunState.RUNNING if history.preflight else RunState.STARTING


def _why(history: History, state: RunState) -> str:
    if state is RunState.DIED:
        return f"its process (pid {history.process.pid if history.process else '?'}) has died"
    if history.ended in (Outcome.FAILED, Outcome.INCOMPLETE):
        return history.ended_why
    return history.waiting if not state.ended else ""


# -- one move ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Point:
    """What one sample says of one move."""

    at: datetime
    size_bytes: int | None
    leader: int | None
    arrived: tuple[int | None, ...]
    since: float
    """When its last byte came, as a timestamp."""

    @property
    def bytes(self) -> int:
        return sum(size or 0 for size in self.arrived)


def _tracks(samples: Iterable[Sample]) -> dict[int, list[_Point]]:
    """Return the samples of each move, oldest first."""
    tracks: defaultdict[int, list[_Point]] = defaultdict(list)
    for sample in samples:
        for index, size, leader, arrived, since in sample.payload["moves"]:
            tracks[index].append(_Point(sample.at, size, leader, tuple(arrived), since))
    return tracks


def _move(
    history: History,
    index: int,
    m: MoveHistory,
    track: list[_Point] | None,
    down: frozenset[int],
) -> MoveProgress:
    newest = track[-1] if track else None
    size = newest.size_bytes if newest and newest.size_bytes is not None else m.size_bytes
    copies = len(m.move.adding)
    total = 0 if not copies else None if size is None else size * copies
    arrived = newest.bytes if newest and m.phase is not Phase.QUEUED else 0
    moved = arrived if total is None else min(arrived, total)
    rate: float | None = None
    left: float | None = None
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
        case Phase.SUBMITTING | Phase.SUBMITTED:
            rate = _rate(m, track)
            stuck = _stuck(history, m, track, down)
            state = MoveState.STUCK if stuck else MoveState.MOVING
            why = stuck or _slowed(history, m)
            if rate and total is not None and not stuck:
                left = max(0.0, total - moved) / rate
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
    )


def _window(track: list[_Point]) -> tuple[_Point, _Point]:
    newest = track[-1]
    start = next(p for p in track if (newest.at - p.at).total_seconds() <= RATE_SECONDS)
    return start, newest


def _rate(m: MoveHistory, track: list[_Point] | None) -> float | None:
    """Return bytes/s over the last quota window, or since the submission when that is shorter."""
    if not track:
        return None
    start, newest = _window(track)
    begun, seconds = start.bytes, (newest.at - start.at).total_seconds()
    if m.submitted_at is not None:
        whole = (newest.at - m.submitted_at).total_seconds()
        if whole <= RATE_SECONDS:
            begun, seconds = 0, whole
    return max(0, newest.bytes - begun) / seconds if seconds > 0 else None


def _stuck(
    history: History, m: MoveHistory, track: list[_Point] | None, down: frozenset[int]
) -> str:
    """Return why a move in flight gets nowhere, in words; "" while it does or may still."""
    gone = [b for b in m.move.adding if b in down]
    if gone:
        return f"b{gone[0]} is down"
    if not track:
        return ""
    newest = track[-1]
    idle = newest.at.timestamp() - newest.since
    whole = newest.size_bytes is not None and newest.bytes >= newest.size_bytes * len(m.move.adding)
    if idle >= STUCK_SECONDS and not whole:
        if newest.leader is not None and newest.leader in down:
            return f"b{newest.leader}, its leader, is down"
        return "no byte has come"
    first = next((p for p in track if (newest.at - p.at).total_seconds() >= GROWTH_SECONDS), None)
    if first is not None and first.size_bytes is not None and newest.size_bytes is not None:
        grown = (newest.size_bytes - first.size_bytes) * len(m.move.adding)
        if grown > 0 and grown >= newest.bytes - first.bytes and not whole:
            return "throttle below what is produced"
    return ""


def _slowed(history: History, m: MoveHistory) -> str:
    """Return which lower quota of somebody else's slows a move; "" for none."""
    for broker in m.move.adding:
        limit = _limit(history, broker, Side.FOLLOWER)
        if limit is not None and limit.rate_bytes_per_s is None:
            rate = limit.limit_bytes_per_s
            if rate is not None and rate < history.rate_bytes_per_s:
                return f"b{broker} quota {format_rate(rate)}, not ours"
    return ""


# -- the whole -------------------------------------------------------------------------------------


def _least_seconds(history: History, moves: Sequence[MoveProgress]) -> float:
    """Return the time that the limits leave no way around: the busiest destination's.

    A leader's quota lets a window's worth through at wire speed; an average of that is no promise.
    """
    due: defaultdict[int, float] = defaultdict(float)
    for m in moves:
        if m.state in (MoveState.QUEUED, MoveState.MOVING, MoveState.STUCK) and m.total_bytes:
            adding = [b for b in m.after if b not in m.before]
            for broker in adding:
                due[broker] += (m.total_bytes - m.moved_bytes) / len(adding)
    least = 0.0
    for broker, left_bytes in due.items():
        intent = _limit(history, broker, Side.FOLLOWER)
        if intent is not None and intent.limit_bytes_per_s:
            least = max(least, left_bytes / intent.limit_bytes_per_s)
    return least


def _range(
    left_bytes: float, now: float | None, average: float | None, least: float
) -> tuple[float, float] | None:
    """Return the time left at the better and at the worse of the two rates, a tenth wider."""
    rates = [rate for rate in (now, average) if rate]
    if not rates or left_bytes < 0:
        return None
    low, high = left_bytes / max(rates), left_bytes / min(rates)
    return 0.9 * max(low, least), 1.1 * max(high, least)


def _limit(history: History, broker: int, side: Side) -> RateIntent | None:
    """Return what was last intended for a broker and side, given back since or not."""
    return next(
        (
            rate
            for batch in reversed(history.throttles.values())
            for rate in batch.rates
            if rate.broker == broker and rate.side is side
        ),
        None,
    )


def _brokers(
    history: History, tracks: Mapping[int, list[_Point]], down: frozenset[int]
) -> tuple[BrokerProgress, ...]:
    """Return the brokers and sides of the moves in flight, the busiest first."""
    flows: defaultdict[tuple[int, Side], float] = defaultdict(float)
    for index in history.in_flight:
        m, track = history.moves[index], tracks.get(index)
        if not track or not m.move.moves_data:
            continue
        rate = _rate(m, track) or 0.0
        start, newest = _window(track)
        came = [
            (end or 0) - (begin or 0)
            for begin, end in zip(start.arrived, newest.arrived, strict=True)
        ]
        whole = sum(came)
        for broker, part in zip(m.move.adding, came, strict=True):
            share = part / whole if whole > 0 else 1 / len(came)
            flows[broker, Side.FOLLOWER] += rate * share
        if newest.leader is not None and newest.leader >= 0:
            flows[newest.leader, Side.LEADER] += rate
    rows = [_broker(history, *key, rate, down) for key, rate in flows.items()]
    return tuple(sorted(rows, key=lambda row: (-(row.bytes_per_s or 0.0), row.broker, row.side)))


def _broker(
    history: History, broker: int, side: Side, rate: float, down: frozenset[int]
) -> BrokerProgress:
    intent = _limit(history, broker, side)
    limit = intent.limit_bytes_per_s if intent else None
    why = ""
    if broker in down:
        why = "down"
    elif intent is not None and intent.rate_bytes_per_s is None:
        why = f"foreign quota {format_rate(limit)}, kept"
    elif limit is not None and rate >= 0.95 * limit:
        why = "at its limit"
    return BrokerProgress(broker, side_word(side), rate, limit, why)
