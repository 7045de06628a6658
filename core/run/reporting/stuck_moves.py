"""Why a move in flight is stuck or slower than its throttle, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

from core.plan.copies import PARTITION_FETCH_BYTES, Side
from core.run.journal.move_state import RunMove
from core.run.journal.records import Sample
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import Key, arriving_sides, by_side
from core.run.reporting.rates import (
    RATE_SECONDS,
    Passed,
    SamplePoint,
    failing_brokers,
    heading_for,
    passed,
    size_changes,
    tracks,
)
from core.run.throttles.inflow import FLOOR_BYTES_PER_S, Growing, growing_sides, never
from core.units import format_rate

STUCK_SECONDS = 30.0
"""No byte for this long, longer than two quota windows, is stuck."""
GROWTH_SECONDS = 20.0
BUSY_SECONDS = 2 * RATE_SECONDS
"""Over how long a side is looked at: within a quota window, bursts say little of a rate."""
BUSY_SHARE = 0.5
"""Of its limit, from which on a side is at it: of batches that a fetch cuts, what counts in a quota
is up to twice what comes."""
PASSED_OVER = 4
"""A fetcher serves its partitions in turn: after so many rounds it is no turn that one lacks."""


class QuotaTurns:
    """Which broker sides are at their limit, so that who gets nothing there waits for its turn.

    A quota that has let others' bytes pass lets none of its own pass for a while, in whichever
    order fetchers come; within one fetcher partitions take turns.
    """

    def __init__(self, run: RunState, tracks: Mapping[int, Sequence[SamplePoint]]) -> None:
        self._state, self._tracks = run, tracks
        self._passed: dict[Key, list[Passed]] = {}
        self._busy: set[Key] = set()
        if not tracks:
            return
        newest = max(track[-1].at for track in tracks.values())
        first = min(track[0].at for track in tracks.values())
        since = newest - timedelta(seconds=BUSY_SECONDS)
        seconds = (newest - max(first, since)).total_seconds()
        if seconds < RATE_SECONDS:
            return
        self._passed = passed(self._state, self._tracks, first)
        in_sync = {
            key: sum(move.in_bytes_per_s * move.in_sync_followers for move in growing)
            for key, growing in _growing_sides(self._state, self._tracks).items()
            if key[1] is Side.LEADER
        }
        for key, rows in self._passed.items():
            held = self._state.throttles.rates.get(key)
            limit = held.limit_bytes_per_s if held is not None else None
            rate = sum(row.bytes for row in rows if row.at > since) / seconds
            if limit is not None and rate + in_sync.get(key, 0.0) >= BUSY_SHARE * limit:
                self._busy.add(key)

    def waited_for(self, index: int) -> str:
        """Return what a move waits for that has had no byte for a window; "" for no turn."""
        track = self._tracks.get(index)
        if not track or track[-1].at.timestamp() - track[-1].since < RATE_SECONDS:
            return ""
        sides = _sides(self._state.moves[index], track[-1])
        since = track[-1].since
        full = [
            key  # at its limit with what others copy
            for key in sides
            if key in self._busy
            and any(row.move != index and row.at.timestamp() > since for row in self._passed[key])
        ]
        if not full or self._is_passed_over(index):
            return ""
        return f"waits its turn: b{full[-1][0]} is at its limit"

    def _is_passed_over(self, index: int) -> bool:
        """Return whether its fetchers have served all others they have so often without it."""
        m, newest = self._state.moves[index], self._tracks[index][-1]
        for broker in m.move.adding:
            others = {
                i
                for i, track in self._tracks.items()
                if i != index
                and broker in self._state.moves[i].move.adding
                and track[-1].leader == newest.leader
            }
            rows = self._passed.get((broker, Side.FOLLOWER), ())
            rows = [row for row in rows if row.at.timestamp() > newest.since]
            came = sum(row.bytes for row in rows if row.move in others)
            if came > PASSED_OVER * (len(others) + 1) * PARTITION_FETCH_BYTES:
                return True
        return False


def _sides(m: RunMove, newest: SamplePoint) -> list[Key]:
    """Return the sides whose limits hold for a move, its leader's first."""
    sides = [*arriving_sides(m.move)]
    if newest.leader is not None and m.move.adding:
        sides.insert(0, (newest.leader, Side.LEADER))
    return sides


def stuck(
    run: RunState,
    m: RunMove,
    track: list[SamplePoint] | None,
    failing: tuple[frozenset[int], Mapping[int, str]],
    never: Mapping[Key, str],
    *,
    held: bool = False,
    turn: bool = False,
) -> str:
    """Return why a move in flight gets nowhere by itself, in words; "" while it does or may still.

    `failing` are the brokers that are down, and those whose log dirs fail: the replicas there have
    vanished from their answers. `never` are the sides whose quota is below what comes in
    (core.run.throttles.inflow). What is `held` is meant to get no byte, and what was held is judged
    from the time on at which it no longer was; what waits for its `turn` gets its bytes in time.
    """
    (down, disks), unheld_at = failing, run.unheld_at
    gone = [b for b in m.move.receiving if b in down]
    if gone:
        return f"b{gone[0]} is down"
    if not track:
        return ""
    newest = track[-1]
    idle = idle_seconds(run, newest)
    copies = len(m.move.receiving)
    whole = newest.size_bytes is not None and newest.bytes >= newest.size_bytes * copies
    disk = next((disks[b] for b in m.move.receiving if b in disks), "")
    if disk and not whole and (newest.held or idle >= STUCK_SECONDS):
        return disk
    if held:
        return ""
    hopeless = next((never[side] for side in _sides(m, newest) if side in never), "")
    if hopeless and not whole:
        return hopeless
    if idle >= STUCK_SECONDS and not whole:
        if newest.leader is not None and newest.leader in down:
            return f"b{newest.leader}, its leader, is down"
        if not turn:
            return "no byte has come"
    if turn:
        return ""
    free = (p for p in track if unheld_at is None or p.at >= unheld_at)
    first = next((p for p in free if (newest.at - p.at).total_seconds() >= GROWTH_SECONDS), None)
    if first is not None and first.size_bytes is not None and newest.size_bytes is not None:
        grown = (newest.size_bytes - first.size_bytes) * copies
        if grown > 0 and grown >= newest.bytes - first.bytes and not whole:
            return "throttle below what is produced"
    return ""


def idle_seconds(run: RunState, newest: SamplePoint) -> float:
    """Return for how long no byte of a move had come as it was last looked at."""
    since = newest.since
    if run.unheld_at is not None:  # until then none was to come
        since = max(since, run.unheld_at.timestamp())
    return max(0.0, newest.at.timestamp() - since)


def waiting_their_turn(run: RunState, samples: Sequence[Sample]) -> frozenset[int]:
    """Return the moves in flight that get no byte only because others use up a limit."""
    tracked = tracks(samples)
    turns, never = QuotaTurns(run, tracked), never_sides(run, tracked)
    failing = failing_brokers(samples)
    return frozenset(
        i
        for i in run.in_flight
        if turns.waited_for(i)
        and not stuck(run, run.moves[i], tracked.get(i), failing, never, turn=True)
    )


def slowed(run: RunState, m: RunMove) -> str:
    """Return which lower quota of somebody else's slows a move; "" for none."""
    for key in arriving_sides(m.move):
        limit = run.throttles.rates.get(key)
        if limit is not None and limit.is_theirs:
            rate = limit.limit_bytes_per_s
            if rate is not None and rate < run.requested_rate(key):
                return f"b{key[0]} quota {format_rate(rate)}, not ours"
    return ""


def is_held(run: RunState, m: RunMove) -> bool:
    """Return whether a move waits on the floor: as it was paused so, or is ahead of its rate."""
    sides = arriving_sides(m.move)
    if sides and all(side in run.held_back for side in sides):
        return True
    rates = [run.throttles.rates.get(side) for side in sides]
    limits = {rate and rate.limit_bytes_per_s for rate in rates}
    return run.rate_control.floored and limits == {FLOOR_BYTES_PER_S}


def never_sides(run: RunState, tracks: Mapping[int, Sequence[SamplePoint]]) -> dict[Key, str]:
    """Return the brokers and sides whose copies never end at the rates in force, and why."""
    left: defaultdict[Key, float] = defaultdict(float)
    for index in run.in_flight:
        if not (track := tracks.get(index)):
            continue
        size, leader, arrived = track[-1].size_bytes or 0, track[-1].leader, track[-1].arrived
        due = [max(0, size - (part or 0)) for part in arrived]
        for key, part in by_side(run.moves[index].move, due, leader):
            left[key] += part
    reasons = {}
    for key, growing in _growing_sides(run, tracks).items():
        held = run.throttles.rates.get(key)
        rate = held.limit_bytes_per_s if held is not None else None
        if rate is not None and rate > FLOOR_BYTES_PER_S:
            requested = heading_for(run, key) or rate  # one that rises yet is not judged as it is
            reasons[key] = never(*key, max(rate, requested), growing, left[key])
    return {key: why for key, why in reasons.items() if why}


def _growing_sides(
    run: RunState, tracks: Mapping[int, Sequence[SamplePoint]]
) -> dict[Key, list[Growing]]:
    tracked = {i: track for i in run.in_flight if (track := tracks.get(i))}
    sizes = {index: size_changes(track) for index, track in tracked.items()}
    leaders = {i: track[-1].leader for i, track in tracked.items() if track[-1].leader is not None}
    return growing_sides(run, sizes, leaders)
