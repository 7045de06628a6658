"""Rates and times of a run, from the bytes that its samples saw arrive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.run.history import History, MoveHistory
from core.run.journal import Sample
from core.run.story import side_word
from core.run.throttle import RateIntent, Side
from core.run.view import BrokerProgress, MoveProgress, MoveState
from core.units import format_rate

RATE_SECONDS = 12.0
"""Rates *now* are over one quota window: within it a throttled copy stalls and bursts."""


@dataclass(frozen=True, slots=True)
class Point:
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


def tracks(samples: Iterable[Sample]) -> dict[int, list[Point]]:
    """Return the samples of each move, oldest first."""
    found: defaultdict[int, list[Point]] = defaultdict(list)
    for sample in samples:
        for index, size, leader, arrived, since in sample.payload["moves"]:
            found[index].append(Point(sample.at, size, leader, tuple(arrived), since))
    return found


def _window(track: list[Point]) -> tuple[Point, Point]:
    newest = track[-1]
    start = next(p for p in track if (newest.at - p.at).total_seconds() <= RATE_SECONDS)
    return start, newest


def rate_now(m: MoveHistory, track: list[Point] | None) -> float | None:
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


def left_seconds(elapsed: float, total_bytes: float, moved_bytes: float) -> float | None:
    """Return the time left at the average so far; None while nothing has moved."""
    if moved_bytes <= 0 or elapsed <= 0:
        return None
    return max(0.0, elapsed * (total_bytes - moved_bytes) / moved_bytes)


def least_seconds(history: History, moves: Sequence[MoveProgress]) -> float:
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
        intent = limit_of(history, broker, Side.FOLLOWER)
        if intent is not None and intent.limit_bytes_per_s:
            least = max(least, left_bytes / intent.limit_bytes_per_s)
    return least


def left_range(
    left_bytes: float, now: float | None, average: float | None, least: float
) -> tuple[float, float] | None:
    """Return the time left at the better and at the worse of the two rates, a tenth wider."""
    rates = [rate for rate in (now, average) if rate]
    if not rates or left_bytes < 0:
        return None
    low, high = left_bytes / max(rates), left_bytes / min(rates)
    return 0.9 * max(low, least), 1.1 * max(high, least)


def limit_of(history: History, broker: int, side: Side) -> RateIntent | None:
    """Return what was last intended for a broker and side, given back since or not."""
    return next(
        (
            rate
            for batch in reversed(history.throttles.values())
            for rate in (*batch.late, *batch.rates)
            if rate.broker == broker and rate.side is side
        ),
        None,
    )


def brokers_now(
    history: History, tracks: Mapping[int, list[Point]], down: frozenset[int]
) -> tuple[BrokerProgress, ...]:
    """Return the brokers and sides of the moves in flight, the busiest first."""
    flows: defaultdict[tuple[int, Side], float] = defaultdict(float)
    for index in history.in_flight:
        m, track = history.moves[index], tracks.get(index)
        if not track or not m.move.moves_data:
            continue
        rate = rate_now(m, track) or 0.0
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
    intent = limit_of(history, broker, side)
    limit = intent.limit_bytes_per_s if intent else None
    why = ""
    if broker in down:
        why = "down"
    elif intent is not None and intent.rate_bytes_per_s is None:
        why = f"foreign quota {format_rate(limit)}, kept"
    elif limit is not None and rate >= 0.95 * limit:
        why = "at its limit"
    return BrokerProgress(broker, side_word(side), rate, limit, why)
