"""Rates and times of a run, from the bytes that its samples saw arrive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from core.plan.copies import Side
from core.run.journal.move_state import Phase, RunMove
from core.run.journal.records import Kind, Record, Sample
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import Key, by_side
from core.run.reporting.event_text import ends_a_pause
from core.run.reporting.views import DUE, IN_FLIGHT, BrokerProgress, MoveProgress, MoveStatus
from core.run.throttles.inflow import FLOOR_BYTES_PER_S
from core.units import format_rate

RATE_SECONDS = 12.0
"""Rates *now* are over one quota window: within it a throttled copy stalls and bursts."""
SIDE_WORDS = {Side.LEADER: "sends", Side.FOLLOWER: "receives", Side.LOG_DIRS: "log dirs"}
"""What a broker does on a side, as views say it."""
ARRIVING = (Side.FOLLOWER, Side.LOG_DIRS)
"""The sides on which copies arrive."""


@dataclass(frozen=True, slots=True)
class SamplePoint:
    """What one sample says of one move."""

    at: datetime
    size_bytes: int | None
    leader: int | None
    arrived: tuple[int | None, ...]
    since: float
    """When its last byte came, as a timestamp."""
    held: bool = False
    """Whether a destination could not be asked, so that its bytes are those last known."""

    @property
    def bytes(self) -> int:
        return sum(size or 0 for size in self.arrived)


def failing_brokers(samples: Sequence[Sample]) -> tuple[frozenset[int], dict[int, str]]:
    """Return which brokers were down last, and what was wrong with the disks of which."""
    last = samples[-1].payload if samples else {}
    disks = {int(broker): why for broker, why in last.get("disks", {}).items()}
    return frozenset(last.get("down", ())), disks


def tracks(samples: Iterable[Sample]) -> dict[int, list[SamplePoint]]:
    """Return the samples of each move, oldest first.

    What a destination that is down holds is what it was last seen to hold.
    """
    points_by_move: defaultdict[int, list[SamplePoint]] = defaultdict(list)
    for sample in samples:
        held = frozenset(sample.payload.get("held", ()))
        for index, size, leader, arrived, since in sample.payload["moves"]:
            track = points_by_move[index]
            known = track[-1].arrived if track else (None,) * len(arrived)
            filled = tuple(
                before if now is None else now for now, before in zip(arrived, known, strict=True)
            )
            missed = index in held or filled != tuple(arrived)
            track.append(SamplePoint(sample.at, size, leader, filled, since, missed))
    return points_by_move


def _window(track: list[SamplePoint]) -> tuple[SamplePoint, SamplePoint]:
    """Return the ends of a quota window, or the last two samples where these are further apart."""
    newest = track[-1]
    earlier = (p for p in track[:-1] if (newest.at - p.at).total_seconds() <= RATE_SECONDS)
    return next(earlier, track[-2] if len(track) > 1 else newest), newest


def size_changes(track: Iterable[SamplePoint]) -> list[tuple[datetime, int]]:
    """Return the leader's sizes when they were first seen: leaders are asked now and then only."""
    changes: list[tuple[datetime, int]] = []
    for point in track:
        if point.size_bytes is not None and (not changes or changes[-1][1] != point.size_bytes):
            changes.append((point.at, point.size_bytes))
    return changes


class Passed(NamedTuple):
    """Bytes of one move that passed one broker's side, and when they were first seen."""

    at: datetime
    move: int
    bytes: float


def passed(
    run: RunState, tracks: Mapping[int, Sequence[SamplePoint]], since: datetime
) -> dict[Key, list[Passed]]:
    """Return what each broker's side has copied since then, oldest first.

    What came of a move after its last sample has come by the time at which it was done.
    """
    traffic: defaultdict[Key, list[Passed]] = defaultdict(list)
    for index, track in tracks.items():
        m = run.moves[index]
        moments = [(p.at, p.leader, p.arrived) for p in track]
        if m.phase is Phase.DONE and m.ended_at is not None and track[-1].size_bytes is not None:
            whole = (track[-1].size_bytes,) * len(track[-1].arrived)
            moments.append((m.ended_at, track[-1].leader, whole))
        for (_, _, before), (at, leader, after) in pairwise(moments):
            if at < since or before == after:
                continue
            parts = zip(before, after, strict=True)
            came = [max(0, (now or 0) - (was or 0)) for was, now in parts]
            for key, part in by_side(m.move, came, leader):
                if part:
                    traffic[key].append(Passed(at, index, part))
    for rows in traffic.values():
        rows.sort()
    return dict(traffic)


def rate_now(m: RunMove, track: list[SamplePoint] | None) -> float | None:
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


def _arriving(m: MoveProgress) -> list[Key]:
    adding = [(b, Side.FOLLOWER) for b in m.after if b not in m.before]
    return [*adding, *((b, Side.LOG_DIRS) for b, _ in m.dir_moves)]


def min_seconds(
    run: RunState, moves: Sequence[MoveProgress], on: Collection[Side] = ARRIVING
) -> float:
    """Return the time that the limits leave no way around: the busiest destination's.

    A leader's quota lets a window's worth through at wire speed; an average of that is no promise.
    Only what arrives on the sides `on` counts.
    """
    due: defaultdict[Key, float] = defaultdict(float)
    for m in moves:
        if m.state in DUE and m.total_bytes:
            sides = _arriving(m)
            for key in sides:
                if key[1] in on:
                    due[key] += (m.total_bytes - m.moved_bytes) / len(sides)
    limits = {key: heading_for(run, key) for key in due}
    return max((due[key] / limit for key, limit in limits.items() if limit), default=0.0)


def slowest_seconds(
    moves: Sequence[MoveProgress], of: Mapping[int, float], on: Collection[Side] = ARRIVING
) -> float:
    """Return when the last destination is done, if each goes on as fast as it receives now.

    `of` is the pace of moves in flight, bytes/s; destinations of which one is not known are left
    out: moves to some brokers may be far slower than the whole. Only what arrives on the sides
    `on` counts.
    """
    due: defaultdict[int, float] = defaultdict(float)
    speed: defaultdict[int, float] = defaultdict(float)
    unknown: set[int] = set()
    for index, m in enumerate(moves):
        sides = _arriving(m)
        if m.state not in DUE or not m.total_bytes:
            continue
        for broker in (broker for broker, side in sides if side in on):
            due[broker] += (m.total_bytes - m.moved_bytes) / len(sides)
            if m.state is MoveStatus.MOVING and of.get(index):
                speed[broker] += of[index] / len(sides)
            elif m.state in IN_FLIGHT:
                unknown.add(broker)
    return max((due[b] / rate for b, rate in speed.items() if b not in unknown), default=0.0)


def heading_for(run: RunState, key: Key) -> int | None:
    """Return the limit of a side once it is as asked: a pause ends, a raised rate has risen."""
    held = run.throttles.rates.get(key)
    if held is None or held.rate_bytes_per_s is None:
        return held.limit_bytes_per_s if held else None
    rate_control, max_rate = run.rate_control, run.max_rate_of(key)
    requested = rate_control.per_side_rates.get(key, rate_control.first_bytes_per_s)
    if key in rate_control.rates and rate_control.rates[key].is_refused(requested):
        return held.rate_bytes_per_s
    return max(held.rate_bytes_per_s, requested if max_rate is None else min(requested, max_rate))


def left_range(
    left_bytes: float, first_rate: float | None, other: float | None, min_seconds: float = 0.0
) -> tuple[float, float] | None:
    """Return the time left at the better and at the worse of two rates, a tenth wider."""
    rates = [rate for rate in (first_rate, other) if rate]
    if not rates or left_bytes < 0:
        return None
    low, high = left_bytes / max(rates), left_bytes / min(rates)
    return 0.9 * max(low, min_seconds), 1.1 * max(high, min_seconds)


def brokers_now(
    run: RunState, tracks: Mapping[int, list[SamplePoint]], down: frozenset[int]
) -> tuple[BrokerProgress, ...]:
    """Return the brokers and sides of the moves in flight, the busiest first.

    What is not known of one move counts for nothing; a side of which nothing is known has no rate.
    """
    flows: dict[Key, float | None] = {}

    def flow(key: Key, rate: float | None) -> None:
        known = flows.setdefault(key, None)
        flows[key] = known if rate is None else (known or 0.0) + rate

    averages = _averages(run, tracks)
    for index in run.in_flight:
        m, track = run.moves[index], tracks.get(index)
        if not track or not m.move.receiving:
            continue
        rate = rate_now(m, track)
        start, newest = _window(track)
        ends = zip(start.arrived, newest.arrived, strict=True)
        came = [(now or 0) - (before or 0) for before, now in ends]
        whole = sum(came)
        shares = [part / whole if whole > 0 else 1 / len(came) for part in came]
        for key, share in by_side(m.move, shares, newest.leader):
            flow(key, None if rate is None else rate * share)
    rows = []
    for (broker, side), rate in flows.items():
        intent = run.throttles.rates.get((broker, side))
        limit = intent.limit_bytes_per_s if intent else None
        why = ""
        if broker in down:
            why = "down"
        elif limit is not None and intent is not None and intent.is_theirs:
            why = f"foreign quota {format_rate(limit)}, kept"
        elif limit is not None and limit > FLOOR_BYTES_PER_S and (rate or 0.0) >= 0.95 * limit:
            why = "at its limit"
        average = averages.get((broker, side))
        rows.append(BrokerProgress(broker, SIDE_WORDS[side], rate, limit, why, average))
    return tuple(sorted(rows, key=lambda row: (-(row.bytes_per_s or 0.0), row.broker, row.side)))


def _averages(run: RunState, tracks: Mapping[int, list[SamplePoint]]) -> dict[Key, float]:
    """Return bytes/s of each broker and side since the first move in which it has that part."""
    came: defaultdict[Key, float] = defaultdict(float)
    begun: dict[Key, datetime] = {}
    newest = max((track[-1].at for track in tracks.values()), default=None)
    for index, m in enumerate(run.moves):
        if m.submitted_at is None or not m.move.receiving:
            continue
        track = tracks.get(index)
        leader = next(iter(m.move.before), None)
        arrived: tuple[int | None, ...] = (m.size_bytes,) * len(m.move.receiving)
        if m.phase is not Phase.DONE:
            if not track:
                continue
            leader, arrived = track[-1].leader, track[-1].arrived
        for key, size in by_side(m.move, [size or 0 for size in arrived], leader):
            came[key] += size
            begun[key] = min(begun.get(key, m.submitted_at), m.submitted_at)
    if newest is None:
        return {}
    return {
        key: came[key] / seconds
        for key, since in begun.items()
        if (seconds := (newest - since).total_seconds()) > 0
    }


MIN_SECONDS = 5.0
"""A shorter time says nothing: within a quota window a throttled copy stalls and bursts."""


@dataclass(frozen=True, slots=True)
class RecentRate:
    """Bytes/s over what the newest samples saw of the run at work; None while too little."""

    bytes_per_s: float | None = None
    of: Mapping[int, float] = field(default_factory=dict)
    """The same for each move in flight that was seen for long enough."""


def recent(
    counted: Mapping[datetime, float], tracked: Mapping[int, Sequence[SamplePoint]]
) -> RecentRate:
    """Return the pace of the newest samples, as far as the run was at work (`at_work`)."""
    came: dict[int, int] = {}
    took: defaultdict[int, float] = defaultdict(float)
    for index, track in tracked.items():
        for before, after in pairwise(track):
            if after.at in counted:
                came[index] = came.get(index, 0) + max(0, after.bytes - before.bytes)
                took[index] += counted[after.at]
    whole = sum(counted.values())
    return RecentRate(
        sum(came.values()) / whole if whole >= MIN_SECONDS else None,
        {i: n / took[i] for i, n in came.items() if took[i] >= MIN_SECONDS},
    )


def at_work(records: Iterable[Record], samples: Sequence[Sample]) -> dict[datetime, float]:
    """Return the seconds before each sample in which the run was at work as it is now."""
    gaps = _excluded_periods(records)
    return {
        later.at: (later.at - earlier.at).total_seconds()
        for earlier, later in pairwise(samples)
        if not (earlier.payload["down"] or later.payload["down"])
        and not any(begin <= later.at and over > earlier.at for begin, over in gaps)
    }


def _excluded_periods(records: Iterable[Record]) -> list[tuple[datetime, datetime]]:
    """Return when the run was not at work as now; what goes on still ends at the end of time."""
    gaps: list[tuple[datetime, datetime]] = []
    paused: datetime | None = None
    for record in records:
        if record.kind is Kind.STARTED:
            gaps.append((record.at, record.at))
        elif record.kind is Kind.REQUEST and not record.payload.get("refused"):
            if record.payload["kind"] == "throttle":
                gaps.append((datetime.min.replace(tzinfo=record.at.tzinfo), record.at))
            elif record.payload["kind"] == "pause":
                paused = paused or record.at
            elif paused is not None and ends_a_pause(record.payload):
                gaps.append((paused, record.at))
                paused = None
    if paused is not None:
        gaps.append((paused, datetime.max.replace(tzinfo=paused.tzinfo)))
    return gaps
